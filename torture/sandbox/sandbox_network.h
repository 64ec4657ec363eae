/* SPDX-License-Identifier: Apache-2.0 */
/* A network of a sandbox's own, in which any part of it can be cut off from the rest: each server
 * and each side of the clients is a network namespace, with a link to every other one. Nothing of
 * it is named anywhere, so it ends with the last process in it. */
#ifndef HF_TORTURE_SANDBOX_SANDBOX_NETWORK_H
#define HF_TORTURE_SANDBOX_SANDBOX_NETWORK_H

#include <stdbool.h>

/* The clients are half on one side, half on the other. */
enum { TORTURE_SIDES = 2 };

struct torture_network;

/* This process, which has no threads, is on side 0 from now on, and never elsewhere again unless it
 * has the rights of a superuser. NULL: it is where it was, and `why` says what is not allowed. */
struct torture_network *torture_network_new(unsigned servers, char why[256]);
/* NULL is fine. */
void torture_network_free(struct torture_network *network);

/* From now on, this process is where the server is, or on that side. */
bool torture_network_be_server(const struct torture_network *network, unsigned server);
bool torture_network_take_side(const struct torture_network *network, unsigned side);

/* "10.77.0.1": the server's, and the one by which clients find the leader. */
const char *torture_network_address(unsigned server);
#define TORTURE_NETWORK_LEADER "10.77.0.100"
/* Sets the server that this one leads to, on this side. */
bool torture_network_lead(const struct torture_network *network, unsigned side, unsigned server);

/* The first side with one server, and the other one with the rest: what one half sends, the other
 * does not get, and no side is told. */
bool torture_network_cut(const struct torture_network *network, unsigned server);
bool torture_network_heal(const struct torture_network *network);

#endif
