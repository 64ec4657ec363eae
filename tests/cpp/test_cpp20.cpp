/* SPDX-License-Identifier: Apache-2.0 */
/* What holdfast.hpp has from C++20 on: waits that a stop_token ends, and coroutines. */
#include "store.hpp"

#include <mutex>

using namespace std::chrono_literals;

#ifdef HOLDFAST_HAS_STOP_TOKEN

TEST(stop_ends_a_wait)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_INSPECT);
    holdfast::mutex other(store, "name"), mine(store, "name");
    const std::lock_guard<holdfast::mutex> held(other);
    std::jthread waiter([&](std::stop_token stop) { CHECK(!mine.lock(stop)); });
    EVENTUALLY(waiters(store, "name") == 1, 20000);
    waiter.request_stop();
    waiter.join();
    CHECK(!mine.held() && other.held());
    EVENTUALLY(waiters(store, "name") == 0, 20000);
    std::stop_source stopped;
    stopped.request_stop();
    CHECK(!mine.lock(stopped.get_token()) && !store.lock("free", stopped.get_token()));
}

TEST(stop_that_is_not_requested_changes_nothing)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_RW);
    const std::stop_source source;
    holdfast::shared_mutex table(store, "table");
    CHECK(table.lock_shared(source.get_token()) && table.held_shared());
    table.unlock_shared();
    CHECK(table.lock(source.get_token()) && table.held());
    CHECK(!table.unlock_checked());
    CHECK(store.lock("name", source.get_token()).held());
}

TEST(stop_that_races_with_a_grant_leaves_no_lock)
{
    holdfast::client store = open_store();
    holdfast::mutex other(store, "name"), mine(store, "name");
    for (int i = 0; i < 200; i++) {
        other.lock();
        std::stop_source source;
        std::thread waiter([&] {
            if (mine.lock(source.get_token()))
                CHECK(!mine.unlock_checked());
        });
        if (i % 2) {
            other.unlock();
            source.request_stop();
        } else {
            source.request_stop();
            other.unlock();
        }
        waiter.join();
        CHECK(other.try_lock_for(20s));
        other.unlock();
    }
}

TEST(stop_token_ends_a_wait_with_a_client_of_the_caller)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.driver = HF_DRIVE_CALLER;
    test_fds_kept = 2;
    holdfast::client store(std::string("local://") + temp_dir(), options);
    const holdfast::hold held = store.lock("name");
    std::stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    CHECK(!store.lock("name", source.get_token()));
    stopper.join();
    CHECK(held.held());
}

#endif

#ifdef HOLDFAST_HAS_COROUTINES

/* Runs until its end by itself. What it throws fails the test. */
struct task {
    struct promise_type {
        task get_return_object()
        {
            return {};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            FAIL("a coroutine has thrown");
        }
    };
};

/* What a coroutine has got, for the thread that waits for it. */
struct report {
    std::atomic<bool> has_ended{ false };
    holdfast::hold hold;
    int code = HF_OK;
    std::thread::id thread;
};

static task acquire(holdfast::client &store, std::string name, holdfast::async_options wait,
                    report &ret)
{
    try {
        ret.hold = co_await store.lock_async(name, {}, std::move(wait));
    } catch (const holdfast::error &failure) {
        ret.code = failure.code().value();
    }
    ret.thread = std::this_thread::get_id();
    ret.has_ended = true;
}

TEST(coroutine_awaits_a_lock)
{
    holdfast::client store = open_store();
    holdfast::hold other = store.lock("name");
    report first, second;
    acquire(store, "name", {}, first);
    acquire(store, "name", {}, second);
    CHECK(!first.has_ended && !second.has_ended);
    other.reset();
    EVENTUALLY(first.has_ended || second.has_ended, 20000);
    report &earlier = first.has_ended ? first : second, &later = first.has_ended ? second : first;
    CHECK(earlier.hold.held() && !later.has_ended);
    CHECK(!store.try_lock("name"));
    earlier.hold.reset();
    EVENTUALLY(later.has_ended, 20000);
    CHECK(later.hold.held() && later.thread != std::this_thread::get_id());
}

static task count_up(holdfast::client &store, int rounds, int &count, std::atomic<int> &ended)
{
    for (int i = 0; i < rounds; i++) {
        const holdfast::hold hold = co_await store.lock_async("count");
        count++;
    }
    ended++;
}

TEST(coroutines_of_one_loop_never_overlap)
{
    holdfast::client store = open_store();
    int count = 0;
    std::atomic<int> ended{ 0 };
    for (int i = 0; i < 20; i++)
        count_up(store, 20, count, ended);
    EVENTUALLY(ended == 20, 50000);
    const holdfast::hold last = store.lock("count");
    CHECK_INT(count, 400);
}

TEST(coroutine_wait_ends_by_its_limit_or_a_stop)
{
    holdfast::client store = open_store();
    const holdfast::hold other = store.lock("name");
    report limited, stopped, late;
    holdfast::async_options wait;
    wait.wait = 20ms;
    acquire(store, "name", wait, limited);
    EVENTUALLY(limited.has_ended, 20000);
    CHECK(!limited.hold && limited.code == HF_OK);
    std::stop_source source;
    wait = {};
    wait.stop = source.get_token();
    acquire(store, "name", wait, stopped);
    CHECK(!stopped.has_ended);
    source.request_stop();
    EVENTUALLY(stopped.has_ended, 20000);
    CHECK(!stopped.hold && stopped.code == HF_OK);
    acquire(store, "free", wait, late);
    CHECK(late.has_ended && !late.hold);
}

TEST(coroutine_goes_on_where_it_asks_to)
{
    holdfast::client store = open_store();
    holdfast::hold other = store.lock("name");
    std::promise<std::coroutine_handle<>> posted;
    report seen;
    holdfast::async_options wait;
    wait.resume_on = [&](std::coroutine_handle<> coroutine) { posted.set_value(coroutine); };
    acquire(store, "name", wait, seen);
    other.reset();
    const std::coroutine_handle<> coroutine = posted.get_future().get();
    CHECK(!seen.has_ended);
    coroutine.resume();
    CHECK(seen.has_ended && seen.hold.held() && seen.thread == std::this_thread::get_id());
}

TEST(coroutine_gets_errors_as_exceptions)
{
    holdfast::client store = open_store();
    report refused;
    acquire(store, "", {}, refused);
    CHECK(refused.has_ended);
    CHECK_INT(refused.code, HF_EINVAL);
}

TEST(coroutine_of_a_closed_client_ends)
{
    std::optional<holdfast::client> other(open_store()), store(open_store());
    const holdfast::hold held = other->lock("name");
    report closed;
    acquire(*store, "name", {}, closed);
    store.reset();
    CHECK(closed.has_ended);
    CHECK_INT(closed.code, HF_ECLOSED);
}

#endif
