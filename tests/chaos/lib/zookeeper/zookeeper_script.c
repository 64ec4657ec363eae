/* SPDX-License-Identifier: Apache-2.0 */
/* The server that does as it is told; see the header. */
#include "zookeeper_script.h"

#include "engines/zookeeper/wire/codec.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_SESSION 4711
/* What a server says of itself, not of what it was asked. */
#define SYSTEM_ERROR (-1)

/* Counts down what is asked of the script, and says whether this one is among it. */
static bool one_of(_Atomic int *count)
{
    if (*count <= 0)
        return false;
    --*count;
    return true;
}

static bool say(int fd, struct zk_writer *writer, size_t begun)
{
    hf__zk_frame_end(writer, begun);
    CHECK(!writer->failed);
    bool said = send(fd, writer->bytes, writer->length, MSG_NOSIGNAL) == (ssize_t)writer->length;
    hf__zk_writer_free(writer);
    return said;
}

static void write_stat(struct zk_writer *writer, const struct script *script, int64_t czxid,
                       int children)
{
    hf__zk_write_long(writer, czxid);
    for (int i = 0; i < 3; i++)
        hf__zk_write_long(writer, 1);
    for (int i = 0; i < 3; i++)
        hf__zk_write_int(writer, 0);
    hf__zk_write_long(writer, script->session);
    hf__zk_write_int(writer, 0);
    hf__zk_write_int(writer, children);
    hf__zk_write_long(writer, 1);
}

static bool greet(struct script *script, int fd, struct zk_reader *hello)
{
    char password[ZK_PASSWORD_SIZE] = { 0 };
    struct zk_writer writer = { 0 };
    hf__zk_read_int(hello);
    hf__zk_read_long(hello);
    hf__zk_read_int(hello);
    int64_t wanted = hf__zk_read_long(hello);
    bool over = wanted != 0 && one_of(&script->ended_sessions);

    if (over)
        memset(script->nodes, 0, sizeof(script->nodes));
    else if (wanted == 0)
        script->session = script->session ? script->session + 1 : FIRST_SESSION;
    size_t begun = hf__zk_frame_begin(&writer);
    hf__zk_write_int(&writer, 0);
    hf__zk_write_int(&writer, over ? 0 : script->timeout_ms);
    hf__zk_write_long(&writer, over ? 0 : script->session);
    hf__zk_write_bytes(&writer, password, sizeof(password));
    hf__zk_write_bool(&writer, false);
    return say(fd, &writer, begun);
}

static bool is_lease(const char *path, size_t length)
{
    return memmem(path, length, "-lease-", strlen("-lease-")) != NULL;
}

static int write_create(struct script *script, struct zk_writer *writer, const char *path,
                        size_t length)
{
    int number = ++script->creates;
    char *node = script->nodes[number % SCRIPT_NODES];

    if (one_of(&script->refused_creates))
        return script->refusal ? script->refusal : ZK_NO_AUTH;
    bool lease = is_lease(path, length);
    if (lease && one_of(&script->refused_leases))
        return ZK_NO_AUTH;
    snprintf(node, sizeof(script->nodes[0]), "%.*s%010d", (int)length, path,
             script->wrapped ? INT32_MIN + number : number);
    if (one_of(&script->lost_creates))
        script->cut = 1;
    if (lease && script->last_lease > 0 && --script->last_lease == 0)
        script->cut = 1;
    if (one_of(&script->bad_creates))
        return ZK_OK;
    hf__zk_write_text(writer, node);
    write_stat(writer, script, number, 0);
    return ZK_OK;
}

/* Of the nodes without a number it knows those of readers. */
static int write_reader(struct script *script, const char *path, size_t length)
{
    int room = -1;

    if (one_of(&script->refused_creates))
        return ZK_NO_AUTH;
    if (!memmem(path, length, "__READ__", strlen("__READ__")))
        return ZK_OK;
    if (script->lost_readers == 0 && one_of(&script->busy_readers))
        return ZK_THROTTLED;
    for (int i = 0; i < SCRIPT_NODES; i++) {
        if (strlen(script->nodes[i]) == length && memcmp(script->nodes[i], path, length) == 0)
            return ZK_NODE_EXISTS;
        if (!script->nodes[i][0])
            room = i;
    }
    CHECK(room >= 0 && length < sizeof(script->nodes[0]));
    memcpy(script->nodes[room], path, length);
    script->nodes[room][length] = '\0';
    if (one_of(&script->lost_readers))
        script->cut = 1;
    return ZK_OK;
}

static void write_list(struct script *script, struct zk_writer *writer, const char *path,
                       size_t length)
{
    size_t count_at = writer->length, last_at = count_at;
    int count = 0;

    hf__zk_write_int(writer, 0);
    for (int i = 0; i < SCRIPT_NODES; i++)
        if (strncmp(script->nodes[i], path, length) == 0 && script->nodes[i][length] == '/') {
            last_at = writer->length;
            hf__zk_write_text(writer, script->nodes[i] + length + 1);
            count++;
        }
    hf__zk_put_int(writer, count_at, count);
    if (one_of(&script->bad_lists))
        writer->length = last_at;
}

static bool ends_with(const char *path, size_t length, const char *end)
{
    size_t size = strlen(end);

    return length >= size && memcmp(path + length - size, end, size) == 0;
}

static int write_data(struct script *script, struct zk_writer *writer, const char *path,
                      size_t length)
{
    script->looks++;
    if (one_of(&script->refused_reads))
        return ZK_NO_AUTH;
    if (!script->data || !ends_with(path, length, script->data_at))
        return ZK_OK;
    hf__zk_write_bytes(writer, script->data, (size_t)script->data_size);
    write_stat(writer, script, 1, one_of(&script->taken));
    return ZK_OK;
}

static int touch_node(struct script *script, struct zk_writer *writer, int node, int32_t operation,
                      struct zk_reader *question)
{
    if (operation == ZK_EXISTS) {
        if (one_of(&script->lost_exists))
            script->cut = 1;
        script->watches += hf__zk_read_bool(question);
        write_stat(writer, script, node, 0);
        return ZK_OK;
    }
    if (one_of(&script->refused_deletes))
        return ZK_NO_AUTH;
    if (one_of(&script->failed_deletes))
        return SYSTEM_ERROR;
    script->nodes[node][0] = '\0';
    return ZK_OK;
}

/* That something happened to it goes out behind the answer that sets the watch. */
static bool tell(int fd, int32_t type, const char *path, size_t length)
{
    struct zk_writer writer = { 0 };
    size_t begun = hf__zk_frame_begin(&writer);

    hf__zk_write_int(&writer, ZK_XID_EVENT);
    hf__zk_write_long(&writer, -1);
    hf__zk_write_int(&writer, 0);
    hf__zk_write_int(&writer, type);
    hf__zk_write_int(&writer, 3);
    hf__zk_write_bytes(&writer, path, length);
    return say(fd, &writer, begun);
}

static bool tell_if_watched(struct script *script, int fd, struct zk_reader question)
{
    size_t length;
    bool lists = hf__zk_read_int(&question) == ZK_GET_CHILDREN;
    const char *path = lists ? hf__zk_read_bytes(&question, &length) : NULL;

    if (!path || !hf__zk_read_bool(&question) || !one_of(&script->freed))
        return true;
    return tell(fd, ZK_CHILDREN, path, length);
}

static int write_body(struct script *script, struct zk_writer *writer, int32_t operation,
                      struct zk_reader *question)
{
    size_t length = 0;
    const char *path =
        operation == ZK_CLOSE || operation == ZK_PING ? "" : hf__zk_read_bytes(question, &length);

    if (operation == ZK_CREATE_CONTAINER)
        return script->barred ? ZK_NO_AUTH : ZK_OK;
    if (script->barred && operation != ZK_CLOSE && operation != ZK_PING)
        return ZK_NO_NODE;
    if (operation == ZK_CREATE2)
        return write_create(script, writer, path, length);
    if (operation == ZK_CREATE)
        return write_reader(script, path, length);
    if (operation == ZK_SET_DATA) {
        script->changes++;
        return one_of(&script->old_versions) ? ZK_BAD_VERSION : ZK_OK;
    }
    if (operation == ZK_GET_DATA)
        return write_data(script, writer, path, length);
    if (operation == ZK_GET_CHILDREN)
        write_list(script, writer, path, length);
    if (operation != ZK_EXISTS && operation != ZK_DELETE)
        return ZK_OK;
    for (int i = 0; i < SCRIPT_NODES; i++)
        if (strlen(script->nodes[i]) == length && memcmp(script->nodes[i], path, length) == 0)
            return touch_node(script, writer, i, operation, question);
    return ZK_NO_NODE;
}

static void count_nodes(struct script *script)
{
    int count = 0;

    for (int i = 0; i < SCRIPT_NODES; i++)
        count += script->nodes[i][0] != '\0';
    script->there = count;
}

static bool answer(struct script *script, int fd, struct zk_reader *question)
{
    struct zk_writer writer = { 0 };
    int32_t xid = hf__zk_read_int(question);
    struct zk_reader asked = *question;
    int32_t operation = hf__zk_read_int(question);
    size_t begun = hf__zk_frame_begin(&writer);

    hf__zk_write_int(&writer, xid);
    hf__zk_write_long(&writer, 1);
    size_t error_at = writer.length;
    hf__zk_write_int(&writer, ZK_OK);
    hf__zk_put_int(&writer, error_at, write_body(script, &writer, operation, question));
    count_nodes(script);
    if (!script->silent && !script->cut)
        return say(fd, &writer, begun) && tell_if_watched(script, fd, asked);
    hf__zk_writer_free(&writer);
    return true;
}

/* What its client asks next, if ever it does. */
static void hear_more(const struct script *script, int fd, const struct zk_frames *frames)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    while (!script->ends && frames->begun == frames->length && poll(&ready, 1, 10) <= 0)
        continue;
}

static bool asks_for_lease(struct zk_reader question)
{
    size_t length;

    hf__zk_read_int(&question);
    if (hf__zk_read_int(&question) != ZK_CREATE2)
        return false;
    const char *path = hf__zk_read_bytes(&question, &length);
    return is_lease(path, length);
}

/* Until its client asks for a deletion. A ping may come before. */
static void hear_deletion(const struct script *script, int fd)
{
    char bytes[4096];

    while (!script->ends) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        ssize_t length = poll(&ready, 1, 10) > 0 ? recv(fd, bytes, sizeof(bytes), MSG_PEEK) : 0;
        for (ssize_t at = 0; at + 12 <= length;) {
            uint32_t words[3];
            memcpy(words, bytes + at, sizeof(words));
            if (ntohl(words[2]) == ZK_DELETE)
                return;
            at += 4 + (ssize_t)ntohl(words[0]);
        }
    }
}

static bool is_late(struct script *script, struct zk_reader question)
{
    hf__zk_read_int(&question);
    int32_t operation = hf__zk_read_int(&question);
    return (operation == ZK_CREATE && one_of(&script->late_readers)) ||
           (operation == ZK_DELETE && one_of(&script->late_deletes));
}

static void lose_node(struct script *script, int fd)
{
    char *node = script->nodes[script->lose - 1];

    script->lose = 0;
    tell(fd, ZK_DELETED, node, strlen(node));
    node[0] = '\0';
    count_nodes(script);
}

static void serve(struct script *script, int fd)
{
    struct zk_frames frames = { 0 };
    struct zk_reader question;
    bool greeted = false, open = true;
    char bytes[4096];

    while (open && !script->ends && !script->cut) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        if (script->lose)
            lose_node(script, fd);
        if (poll(&ready, 1, 10) <= 0)
            continue;
        ssize_t count = read(fd, bytes, sizeof(bytes));
        open = count > 0 && hf__zk_frames_add(&frames, bytes, (size_t)count);
        while (open && !script->cut && hf__zk_frames_next(&frames, &question) > 0) {
            if (script->late_leases && greeted && asks_for_lease(question))
                hear_more(script, fd, &frames);
            if (greeted && is_late(script, question))
                hear_deletion(script, fd);
            open = greeted ? answer(script, fd, &question) : greet(script, fd, &question);
            greeted = true;
        }
    }
    script->cut = 0;
    hf__zk_frames_free(&frames);
}

static _Thread_local bool is_here;

bool script_is_here(void)
{
    return is_here;
}

static void be_server(void *arg)
{
    struct script *script = arg;

    is_here = true;
    while (!script->ends) {
        struct pollfd ready = { .fd = script->listener, .events = POLLIN };
        if (poll(&ready, 1, 10) <= 0)
            continue;
        int fd = accept4(script->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        serve(script, fd);
        close(fd);
    }
}

void script_start(struct script *script, int timeout_ms)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);

    *script = (struct script){ .timeout_ms = timeout_ms };
    script->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(script->listener >= 0);
    CHECK(bind(script->listener, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(script->listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(listen(script->listener, 16) == 0);
    script->port = ntohs(address.sin_port);
    thread_start(&script->thread, be_server, script);
}

hf_client *script_open(const struct script *script, int64_t lease_ms)
{
    char url[80];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "zk://127.0.0.1:%d/locks", script->port);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

void script_end(struct script *script)
{
    script->ends = 1;
    thread_join(&script->thread);
    close(script->listener);
}
