/* SPDX-License-Identifier: Apache-2.0 */
/* The public header as it was before the option structs grew for the first time: never changed.
 * Programs that were compiled with it run with every later library of this soname. Only its
 * comments are left out. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))

#define HF_LOOK __attribute__((warn_unused_result))
#else
#define HF_API
#define HF_LOOK
#endif

#define HF_FOREVER ((int64_t)-1)

#define HF_PATIENCE_MS 5000

#define HF_NAME_MAX 1024

#define HF_OWNER_KEY_SIZE 64

HF_API const char *hf_version(void);

typedef enum hf_code {
    HF_OK = 0,

    HF_BUSY = 1,
    HF_LOST = 2,
    HF_CANCELED = 3,

    HF_UNREACHABLE = 4,
    HF_DENIED = 5,

    HF_EINVAL = 6,
    HF_EDEADLK = 7,
    HF_EKIND = 8,
    HF_ENOTSUP = 9,
    HF_EFORKED = 10,
    HF_ECLOSED = 11,
    HF_ENOMEM = 12,
    HF_ELIMIT = 13,
    HF_ECORRUPT = 14,
    HF_EINTERNAL = 15
} hf_code;

HF_API const char *hf_code_name(int code);
HF_API const char *hf_code_text(int code);

typedef struct hf_error {
    int code;
    int native;
    char text[360];
} hf_error;

HF_API const hf_error *hf_last_error(void);

typedef struct hf_client hf_client;

typedef enum hf_driver { HF_DRIVE_THREAD = 0, HF_DRIVE_MYSELF = 1 } hf_driver;

typedef enum hf_event_type {
    HF_EVENT_GRANTED = 0,
    HF_EVENT_WAITING = 1,
    HF_EVENT_RELEASED = 2,
    HF_EVENT_LOST = 3,
    HF_EVENT_TAKEOVER = 4,
    HF_EVENT_STORE_DOWN = 5,
    HF_EVENT_STORE_UP = 6,
    HF_EVENT_NOT_RENEWED = 7
} hf_event_type;

typedef struct hf_event {
    size_t size;
    hf_event_type type;
    const char *name;
    uint64_t token;
    const char *text;
} hf_event;

typedef void hf_event_cb(void *arg, const hf_event *event);

typedef void hf_point_cb(void *arg, const char *point, const char *name);

typedef struct hf_client_options {
    size_t size;
    hf_driver driver;
    int64_t lease_ms;
    const char *owner_text;
    hf_event_cb *on_event;
    void *event_arg;
    bool existing_only;
    hf_point_cb *on_point;
    void *point_arg;
} hf_client_options;

#ifdef __cplusplus
#define HF_CLIENT_OPTIONS_INIT hf_client_options_init()
static inline hf_client_options hf_client_options_init(void)
{
    hf_client_options options = {};
    options.size = sizeof(options);
    return options;
}
#else
#define HF_CLIENT_OPTIONS_INIT                                                                     \
    {                                                                                              \
        .size = sizeof(hf_client_options)                                                          \
    }
#define HF_CLIENT_OPTIONS(...)                                                                     \
    ((hf_client_options){ .size = sizeof(hf_client_options), __VA_ARGS__ })
#endif

HF_API HF_LOOK int hf_open(hf_client **ret, const char *url, const hf_client_options *options);

HF_API void hf_close(hf_client *client);

#define HF_CAP_MUTEX 0x001u
#define HF_CAP_FAIR 0x002u
#define HF_CAP_RW 0x004u
#define HF_CAP_UPGRADE 0x008u
#define HF_CAP_PERMIT 0x010u
#define HF_CAP_COUNTER 0x020u
#define HF_CAP_LATCH 0x040u
#define HF_CAP_TOKEN 0x080u
#define HF_CAP_DETACH 0x100u
#define HF_CAP_INSPECT 0x200u
#define HF_CAP_BREAK 0x400u
#define HF_CAP_INSPECT_ALL 0x800u
HF_API unsigned hf_caps(const hf_client *client);

HF_API const char *hf_url(const hf_client *client);

typedef struct hf_hold hf_hold;

typedef enum hf_mode {
    HF_MUTEX = 0,
    HF_FAIR = 1,
    HF_READ = 2,
    HF_UPGRADE = 3,
    HF_WRITE = 4,
    HF_PERMIT = 5,
    HF_COUNTER = 6,
    HF_LATCH = 7
} hf_mode;

typedef struct hf_loss {
    size_t size;
    const char *name;
    uint64_t token;
    const char *reason;
} hf_loss;

typedef void hf_lost_cb(void *arg, const hf_loss *loss);

typedef struct hf_lock_options {
    size_t size;
    hf_mode mode;
    uint32_t permits;
    uint32_t limit;
    int64_t lease_ms;
    uint64_t owner;
    const char *owner_text;
    hf_lost_cb *on_lost;
    void *lost_arg;
} hf_lock_options;

#ifdef __cplusplus
#define HF_LOCK_OPTIONS_INIT hf_lock_options_init()
static inline hf_lock_options hf_lock_options_init(void)
{
    hf_lock_options options = {};
    options.size = sizeof(options);
    return options;
}
#else
#define HF_LOCK_OPTIONS_INIT                                                                       \
    {                                                                                              \
        .size = sizeof(hf_lock_options)                                                            \
    }
#define HF_LOCK_OPTIONS(...) ((hf_lock_options){ .size = sizeof(hf_lock_options), __VA_ARGS__ })
#endif

HF_API HF_LOOK int hf_lock(hf_client *client, const char *name, int64_t wait_ms,
                           const hf_lock_options *options, hf_hold **ret);

HF_API int hf_unlock(hf_hold *hold);

HF_API void hf_unlock_nowait(hf_hold *hold);

HF_API bool hf_held(const hf_hold *hold);

HF_API int64_t hf_remaining_ms(const hf_hold *hold);

HF_API uint64_t hf_token(const hf_hold *hold);

HF_API const char *hf_hold_name(const hf_hold *hold);

HF_API hf_mode hf_hold_mode(const hf_hold *hold);

HF_API HF_LOOK int hf_upgrade(hf_hold *hold, int64_t wait_ms);

HF_API int hf_downgrade(hf_hold *hold, hf_mode mode);

HF_API HF_LOOK int hf_renew(hf_hold *hold, int64_t lease_ms);

HF_API HF_LOOK int hf_detach(hf_hold *hold, char owner_key[HF_OWNER_KEY_SIZE]);

HF_API HF_LOOK int hf_attach(hf_client *client, const char *name, const char *owner_key,
                             hf_hold **ret);

typedef uint64_t hf_request;

typedef void hf_done_cb(void *arg, int code, hf_hold *hold, const hf_error *error);

HF_API HF_LOOK int hf_lock_async(hf_client *client, const char *name, int64_t wait_ms,
                                 const hf_lock_options *options, hf_done_cb *done, void *arg,
                                 hf_request *ret);

HF_API void hf_cancel(hf_client *client, hf_request request);

HF_API int hf_fd(const hf_client *client);
HF_API int hf_dispatch(hf_client *client);

HF_API int hf_semaphore_set(hf_client *client, const char *name, uint32_t permits);

HF_API int hf_counter_set(hf_client *client, const char *name, uint32_t value);
HF_API int hf_counter_add(hf_client *client, const char *name, uint32_t amount);
HF_API HF_LOOK int hf_counter_take(hf_client *client, const char *name, uint32_t amount,
                                   int64_t wait_ms);
HF_API int hf_counter_get(hf_client *client, const char *name, uint32_t *ret_value);
HF_API int hf_counter_remove(hf_client *client, const char *name);

HF_API int hf_latch_set(hf_client *client, const char *name, uint32_t count);
HF_API int hf_latch_down(hf_client *client, const char *name, uint32_t amount, uint32_t *ret_left);
HF_API int hf_latch_get(hf_client *client, const char *name, uint32_t *ret_left);
HF_API HF_LOOK int hf_latch_wait(hf_client *client, const char *name, int64_t wait_ms);

typedef enum hf_kind {
    HF_KIND_FREE = 0,
    HF_KIND_MUTEX = 1,
    HF_KIND_FAIR = 2,
    HF_KIND_RW = 3,
    HF_KIND_SEMAPHORE = 4,
    HF_KIND_COUNTER = 5,
    HF_KIND_LATCH = 6
} hf_kind;

typedef enum hf_role { HF_ROLE_OBJECT = 0, HF_ROLE_HOLDER = 1, HF_ROLE_WAITER = 2 } hf_role;

typedef struct hf_entry {
    size_t size;
    const char *name;
    size_t name_length;
    hf_kind kind;
    hf_role role;

    uint32_t total;
    uint32_t value;
    uint64_t token;

    hf_mode mode;
    uint32_t permits;
    uint32_t rank;
    const char *owner_key;
    const char *owner_text;
    const char *host;
    int64_t pid;
    int64_t since_ms;
    int64_t lease_left_ms;
} hf_entry;

typedef bool hf_entry_cb(void *arg, const hf_entry *entry);

HF_API int hf_inspect(hf_client *client, const char *name, hf_entry_cb *visit, void *arg);

HF_API int hf_break(hf_client *client, const char *name, const char *owner_key,
                    uint32_t *ret_count);

typedef struct hf_remark {
    size_t size;
    const char *what;
    const char *value;
    const char *consequence;
    const char *cure;
    const char *id;
} hf_remark;

typedef bool hf_remark_cb(void *arg, const hf_remark *remark);

HF_API int hf_examine(hf_client *client, const char *name, hf_remark_cb *visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
