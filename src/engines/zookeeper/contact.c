/* What a server hears of us it reports to the leader, which ends sessions, twice a tick: an answer
 * of the leader's proves that the reports came through until shortly before it was asked, and no
 * more. A session lasts two ticks at least, so "shortly" is a quarter of it at most. Reads and
 * pings prove nothing: a server that is cut off from the leader answers them all the same. */
#include "contact.h"

#include <string.h>

void hf__zk_contacts_begin(struct zk_contacts *contacts, int64_t at_ms)
{
    *contacts = (struct zk_contacts){ .known_ms = at_ms, .newest_ms = at_ms };
}

/* Every lock that rests on the session is looked at for each of them. */
bool hf__zk_contacts_wants(const struct zk_contacts *contacts, int64_t at_ms, int64_t timeout_ms)
{
    return at_ms >= contacts->newest_ms + timeout_ms / 12;
}

/* A belief is two thirds of the session long, so it may begin a third after what the leader knows.
 */
int64_t hf__zk_contacts_note(struct zk_contacts *contacts, int64_t at_ms, int64_t timeout_ms)
{
    unsigned reported = 0;
    while (reported < contacts->count && contacts->at_ms[reported] <= at_ms - timeout_ms / 4)
        contacts->known_ms = contacts->at_ms[reported++];
    contacts->count -= reported;
    memmove(contacts->at_ms, contacts->at_ms + reported, contacts->count * sizeof(int64_t));
    if (contacts->count < ZK_CONTACTS_MAX)
        contacts->at_ms[contacts->count++] = at_ms;
    contacts->newest_ms = at_ms;
    int64_t latest_ms = contacts->known_ms + timeout_ms / 3;
    return at_ms < latest_ms ? at_ms : latest_ms;
}
