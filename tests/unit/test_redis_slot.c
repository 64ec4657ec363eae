/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of a Redis Cluster: the same that servers count, whatever braces a name has. */
#include "engines/redis/topology/slot.h"
#include "test.h"

static unsigned slot_of(const char *name)
{
    return hf__slot_of(name, strlen(name));
}

TEST(slots_are_those_of_the_servers)
{
    CHECK_INT(slot_of(""), 0);
    CHECK_INT(slot_of("123456789"), 12739);
    CHECK_INT(slot_of("foo"), 12182);
    CHECK_INT(slot_of("\xff"), 7920);
}

TEST(what_is_in_braces_counts_alone)
{
    CHECK_INT(slot_of("{user1000}.following"), slot_of("user1000"));
    CHECK_INT(slot_of("redisson_lock__channel:{foo}"), slot_of("foo"));
    CHECK_INT(slot_of("foo{bar}{zap}"), slot_of("bar"));
    CHECK_INT(slot_of("foo{{bar}}zap"), slot_of("{bar"));
    CHECK_INT(slot_of("x}y{z}"), slot_of("z"));
}

TEST(braces_without_anything_inside_do_not)
{
    CHECK(slot_of("foo{}{bar}") != slot_of("bar"));
    CHECK(slot_of("{foo") != slot_of("foo"));
    CHECK(slot_of("foo}") != slot_of("foo"));
    CHECK(slot_of("}{") != slot_of(""));
}
