/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, the links between them, and which of them are cut. The kernel is asked by rtnetlink,
 * so that no program needs to be installed for it. */
#include "torture/sandbox/sandbox_network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Servers come first, then the sides. The loopback has number 1 everywhere, and the link to a node
 * the node's number after FIRST_LINK: the kernel may put tunnels of its own into each namespace. */
enum { NODES_MAX = 3 + TORTURE_SIDES, LOOPBACK = 1, FIRST_LINK = 1000, HARDWARE = 6 };
enum { FIRST_SIDE_ADDRESS = 101, LEADER_ADDRESS = 100 };

struct node {
    int space;  /* its namespace */
    int kernel; /* a socket to ask the kernel by, in it */
};

struct torture_network {
    unsigned servers, nodes;
    int home; /* where we came from */
    struct node all[NODES_MAX];
};

struct request {
    struct nlmsghdr header;
    union {
        struct ifinfomsg link;
        struct ifaddrmsg address;
        struct rtmsg route;
        struct ndmsg neighbour;
    } body;
    char room[512];
};

/* ---- asking the kernel ---- */

static struct request ask_for(uint16_t type, uint16_t flags, size_t body)
{
    struct request request = { .header = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(body),
                                           .nlmsg_type = type,
                                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags } };

    return request;
}

static struct rtattr *put(struct request *request, uint16_t type, const void *data, size_t length)
{
    char *end = (char *)request + NLMSG_ALIGN(request->header.nlmsg_len);
    struct rtattr *attribute = (struct rtattr *)end;

    attribute->rta_type = type;
    attribute->rta_len = (uint16_t)RTA_LENGTH(length);
    if (length > 0)
        memcpy(RTA_DATA(attribute), data, length);
    request->header.nlmsg_len =
        NLMSG_ALIGN(request->header.nlmsg_len) + (uint32_t)RTA_ALIGN(attribute->rta_len);
    return attribute;
}

static void end_nest(const struct request *request, struct rtattr *nest)
{
    nest->rta_len = (uint16_t)((const char *)request + request->header.nlmsg_len - (char *)nest);
}

/* Alignments of messages and attributes are the same, so an answer is never cut. errno says why. */
static bool ask(const struct node *node, struct request *request)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char room[1024];
    } answer;

    if (send(node->kernel, request, request->header.nlmsg_len, 0) < 0 ||
        recv(node->kernel, &answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof answer.error))
        return false;
    errno = answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : EPROTO;
    return errno == 0;
}

/* ---- addresses ---- */

static struct in_addr address_of(const struct torture_network *network, unsigned node)
{
    unsigned last =
        node < network->servers ? node + 1 : FIRST_SIDE_ADDRESS + node - network->servers;

    return (struct in_addr){ htonl(0x0a4d0000u | last) };
}

static struct in_addr leader_address(void)
{
    return (struct in_addr){ htonl(0x0a4d0000u | LEADER_ADDRESS) };
}

const char *torture_network_address(unsigned server)
{
    static const char *const addresses[] = { "10.77.0.1", "10.77.0.2", "10.77.0.3" };

    return addresses[server];
}

/* Of the end, at `node`, of its link to another one. No card has such a one. */
static void name_hardware(unsigned char name[HARDWARE], unsigned node, unsigned other)
{
    const unsigned char bytes[HARDWARE] = {
        2, 0x77, 0, 0, (unsigned char)node, (unsigned char)other
    };

    memcpy(name, bytes, HARDWARE);
}

/* ---- links ---- */

static int link_number(unsigned to)
{
    return FIRST_LINK + (int)to;
}

static bool make_link(const struct torture_network *network, unsigned a, unsigned b)
{
    struct request request =
        ask_for(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifinfomsg));
    struct ifinfomsg other_end = { .ifi_index = link_number(a) };
    unsigned char hardware[HARDWARE];
    char name[IFNAMSIZ];

    request.body.link.ifi_index = link_number(b);
    name_hardware(hardware, a, b);
    put(&request, IFLA_ADDRESS, hardware, sizeof hardware);
    put(&request, IFLA_IFNAME, name, (size_t)snprintf(name, sizeof name, "to%u", b) + 1);
    struct rtattr *information = put(&request, IFLA_LINKINFO, NULL, 0);
    put(&request, IFLA_INFO_KIND, "veth", sizeof "veth");
    struct rtattr *data = put(&request, IFLA_INFO_DATA, NULL, 0);
    struct rtattr *peer = put(&request, VETH_INFO_PEER, &other_end, sizeof other_end);
    name_hardware(hardware, b, a);
    put(&request, IFLA_ADDRESS, hardware, sizeof hardware);
    put(&request, IFLA_IFNAME, name, (size_t)snprintf(name, sizeof name, "to%u", a) + 1);
    put(&request, IFLA_NET_NS_FD, &network->all[b].space, sizeof network->all[b].space);
    end_nest(&request, peer);
    end_nest(&request, data);
    end_nest(&request, information);
    return ask(&network->all[a], &request);
}

static bool bring_up(const struct node *node, int link)
{
    struct request request = ask_for(RTM_NEWLINK, 0, sizeof(struct ifinfomsg));

    request.body.link.ifi_index = link;
    request.body.link.ifi_flags = request.body.link.ifi_change = IFF_UP;
    return ask(node, &request);
}

static bool add_address(const struct node *node, struct in_addr address)
{
    struct request request =
        ask_for(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifaddrmsg));

    request.body.address =
        (struct ifaddrmsg){ .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = LOOPBACK };
    put(&request, IFA_LOCAL, &address, sizeof address);
    put(&request, IFA_ADDRESS, &address, sizeof address);
    return ask(node, &request);
}

static bool add_route(const struct torture_network *network, unsigned node, struct in_addr to,
                      unsigned by)
{
    struct request request =
        ask_for(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof(struct rtmsg));
    struct in_addr own = address_of(network, node);
    int link = link_number(by);

    request.body.route = (struct rtmsg){ .rtm_family = AF_INET,
                                         .rtm_dst_len = 32,
                                         .rtm_table = RT_TABLE_MAIN,
                                         .rtm_protocol = RTPROT_STATIC,
                                         .rtm_scope = RT_SCOPE_LINK,
                                         .rtm_type = RTN_UNICAST };
    put(&request, RTA_DST, &to, sizeof to);
    put(&request, RTA_OIF, &link, sizeof link);
    put(&request, RTA_PREFSRC, &own, sizeof own);
    return ask(&network->all[node], &request);
}

/* Which hardware has an address is not asked: it is told. What is sent to hardware that is not
 * there is lost without a word, which is how a partition looks from inside. */
static bool know(const struct torture_network *network, unsigned node, unsigned other,
                 struct in_addr address, bool rightly)
{
    struct request request =
        ask_for(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(struct ndmsg));
    unsigned char hardware[HARDWARE];

    name_hardware(hardware, other, rightly ? node : UINT8_MAX);
    request.body.neighbour = (struct ndmsg){ .ndm_family = AF_INET,
                                             .ndm_ifindex = link_number(other),
                                             .ndm_state = NUD_PERMANENT };
    put(&request, NDA_DST, &address, sizeof address);
    put(&request, NDA_LLADDR, hardware, sizeof hardware);
    return ask(&network->all[node], &request);
}

static bool connect_ways(const struct torture_network *network, unsigned a, unsigned b, bool on)
{
    return know(network, a, b, address_of(network, b), on) &&
           know(network, b, a, address_of(network, a), on) &&
           know(network, a, b, leader_address(), on) && know(network, b, a, leader_address(), on);
}

static bool link_nodes(const struct torture_network *network, unsigned a, unsigned b)
{
    return make_link(network, a, b) && bring_up(&network->all[a], link_number(b)) &&
           bring_up(&network->all[b], link_number(a)) &&
           add_route(network, a, address_of(network, b), b) &&
           add_route(network, b, address_of(network, a), a) && connect_ways(network, a, b, true);
}

/* ---- making it ---- */

static bool write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool fine = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return fine;
}

/* A process without rights has them in a user namespace, over the networks that it makes there. */
static bool get_rights(void)
{
    unsigned user = geteuid(), group = getegid();
    char map[64];

    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    write_to("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", user, user);
    if (!write_to("/proc/self/uid_map", map))
        return false;
    snprintf(map, sizeof map, "%u %u 1", group, group);
    return write_to("/proc/self/gid_map", map);
}

static bool make_node(struct torture_network *network, unsigned number)
{
    struct node *node = &network->all[number];

    if (unshare(CLONE_NEWNET) != 0)
        return false;
    node->space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    node->kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    return node->space >= 0 && node->kernel >= 0 && bring_up(node, LOOPBACK) &&
           add_address(node, address_of(network, number)) &&
           (number >= network->servers || add_address(node, leader_address()));
}

static bool make_all(struct torture_network *network)
{
    for (unsigned i = 0; i < network->nodes; i++)
        if (!make_node(network, i))
            return false;
    for (unsigned a = 0; a < network->servers; a++)
        for (unsigned b = a + 1; b < network->nodes; b++)
            if (!link_nodes(network, a, b))
                return false;
    for (unsigned side = 0; side < TORTURE_SIDES; side++)
        if (!torture_network_lead(network, side, 0))
            return false;
    return torture_network_take_side(network, 0);
}

static struct torture_network *make(unsigned servers)
{
    struct torture_network *network = malloc(sizeof *network);
    int error;

    if (!network)
        return NULL;
    *network = (struct torture_network){ .servers = servers, .nodes = servers + TORTURE_SIDES };
    for (unsigned i = 0; i < NODES_MAX; i++)
        network->all[i] = (struct node){ -1, -1 };
    network->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if ((unshare(CLONE_NEWNET) == 0 || get_rights()) && make_all(network))
        return network;
    error = errno;
    torture_network_free(network);
    errno = error;
    return NULL;
}

/* Half of it is of no use, and a process that has gone without rights cannot go back: so another
 * process tries it first. errno says why not. */
static bool may_be_made(unsigned servers)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(make(servers) ? 0 : errno ? errno : EIO);
    if (pid < 0)
        return false;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    return errno == 0;
}

struct torture_network *torture_network_new(unsigned servers, char why[256])
{
    struct torture_network *network = may_be_made(servers) ? make(servers) : NULL;

    if (!network)
        snprintf(why, 256, "no network namespaces may be made here (%s)",
                 errno == ENOSPC ? "the system's limit for them is reached" : strerror(errno));
    return network;
}

void torture_network_free(struct torture_network *network)
{
    if (!network)
        return;
    for (unsigned i = 0; i < NODES_MAX; i++) {
        if (network->all[i].space >= 0)
            close(network->all[i].space);
        if (network->all[i].kernel >= 0)
            close(network->all[i].kernel);
    }
    if (network->home >= 0) {
        (void)!setns(network->home, CLONE_NEWNET);
        close(network->home);
    }
    free(network);
}

/* ---- being in it ---- */

bool torture_network_be_server(const struct torture_network *network, unsigned server)
{
    return setns(network->all[server].space, CLONE_NEWNET) == 0;
}

bool torture_network_take_side(const struct torture_network *network, unsigned side)
{
    return setns(network->all[network->servers + side].space, CLONE_NEWNET) == 0;
}

bool torture_network_lead(const struct torture_network *network, unsigned side, unsigned server)
{
    /* mutant: both-sides-are-led-to-same */
    return add_route(network, network->servers + side, leader_address(), server);
}

/* ---- cutting it ---- */

static bool connect_halves(const struct torture_network *network, unsigned server, bool on)
{
    bool fine = true;

    for (unsigned a = 0; a < network->servers; a++)
        for (unsigned b = a + 1; b < network->nodes; b++)
            /* mutant: owner-leads-is-cut-off-without */
            if ((a == server) != (b == server || b == network->servers))
                fine = connect_ways(network, a, b, on) && fine;
    return fine;
}

bool torture_network_cut(const struct torture_network *network, unsigned server)
{
    return connect_halves(network, server, false); /* mutant: partition-cuts-nothing */
}

bool torture_network_heal(const struct torture_network *network)
{
    bool fine = true;

    for (unsigned server = 0; server < network->servers; server++)
        fine = connect_halves(network, server, true) && fine; /* mutant: partition-does-not-heal */
    return fine;
}
