/* Which of our messages the leader knows of: how long a session may be believed in rests on that.
 */
#ifndef HF_ENGINES_ZOOKEEPER_CONTACT_H
#define HF_ENGINES_ZOOKEEPER_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

/* Those that the leader may not know of yet, as many as can be between two reports. */
#define ZK_CONTACTS_MAX 4u

struct zk_contacts {
    int64_t known_ms;  /* the leader has counted the session from here, or from later */
    int64_t newest_ms; /* the last one that was noted */
    int64_t at_ms[ZK_CONTACTS_MAX];
    unsigned count;
};

/* The leader itself has been asked by a message that left then: a greeting is. */
void hf__zk_contacts_begin(struct zk_contacts *contacts, int64_t at_ms);
/* Is one that left then worth noting? */
bool hf__zk_contacts_wants(const struct zk_contacts *contacts, int64_t at_ms, int64_t timeout_ms);
/* The leader has answered a message that left then, by way of the server that we are connected to.
 * Answers when the message left that the session may be counted from. */
int64_t hf__zk_contacts_note(struct zk_contacts *contacts, int64_t at_ms, int64_t timeout_ms);

#endif
