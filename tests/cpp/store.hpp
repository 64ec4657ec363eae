/* SPDX-License-Identifier: Apache-2.0 */
/* The test runner and the store under test, for tests in C++. */
#ifndef TESTS_CPP_STORE_HPP
#define TESTS_CPP_STORE_HPP

#include <holdfast.hpp>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "test.h"
}

/* $HOLDFAST_TEST_URL, or an embedded store in the test's own directory. A break is learned within a
 * third of the lease. */
inline holdfast::client open_store()
{
    const char *given = getenv("HOLDFAST_TEST_URL");
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.lease_ms = 3000;
    test_fds_kept = 2; /* libuv's, for signals */
    return holdfast::client(given ? given : std::string("local://") + temp_dir(), options);
}

inline void need(const holdfast::client &store, unsigned caps)
{
    if ((store.caps() & caps) != caps)
        SKIP("the store does not have that");
}

inline void break_lock(const holdfast::client &store, const char *name)
{
    uint32_t count = 0;
    CHECK_INT(hf_break(store.get(), name, nullptr, &count), HF_OK);
    CHECK_INT(count, 1);
}

inline int waiters(const holdfast::client &store, const char *name)
{
    int count = 0;
    const auto visit = [](void *arg, const hf_entry *entry) {
        *static_cast<int *>(arg) += entry->role == HF_ROLE_WAITER;
        return true;
    };
    CHECK_INT(hf_inspect(store.get(), name, visit, &count), HF_OK);
    return count;
}

/* Runs body(0 .. count-1) each in a thread of its own, and waits for all of them. */
inline void threads_of(int count, const std::function<void(int)> &body)
{
    std::vector<std::thread> threads;
    for (int t = 0; t < count; t++)
        threads.emplace_back(body, t);
    for (std::thread &thread : threads)
        thread.join();
}

template <class Body> int code_thrown_by(Body body)
{
    try {
        body();
    } catch (const holdfast::error &failure) {
        CHECK(std::strlen(failure.what()) > 10);
        CHECK(std::strchr(failure.what(), '\n') == nullptr);
        return failure.code().value();
    }
    return HF_OK;
}

#endif
