/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.hpp on a real store: guards of the standard library, holds, losses, sets, errors. */
#include "store.hpp"

#include <mutex>
#include <shared_mutex>
#include <thread>

using namespace std::chrono_literals;

bool is_lost_elsewhere(const std::error_code &code);

static_assert(!std::is_copy_constructible_v<holdfast::hold>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::hold>);
static_assert(std::is_nothrow_move_assignable_v<holdfast::hold>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::hold_set>);
static_assert(std::is_nothrow_move_assignable_v<holdfast::hold_set>);
static_assert(std::is_nothrow_destructible_v<holdfast::hold>);
static_assert(std::is_move_constructible_v<holdfast::client>);
static_assert(!std::is_move_constructible_v<holdfast::mutex>);
static_assert(std::is_nothrow_copy_constructible_v<holdfast::error>);

TEST(unique_lock_excludes_another_object_of_the_name)
{
    holdfast::client store = open_store();
    holdfast::mutex one(store, "orders"), other(store, std::string("orders"));
    CHECK_STR(one.name(), "orders");
    std::unique_lock<holdfast::mutex> lock(one);
    CHECK(one.held() && !one.lost() && one.remaining() > 0ms);
    CHECK((one.token() > 0) == ((store.caps() & HF_CAP_TOKEN) != 0));
    CHECK(!other.try_lock());
    CHECK(!other.held() && !other.lost() && other.token() == 0);
    CHECK(!std::unique_lock<holdfast::mutex>(other, std::try_to_lock).owns_lock());
    CHECK(!std::unique_lock<holdfast::mutex>(other, 20ms).owns_lock());
    CHECK(!other.try_lock_until(std::chrono::system_clock::now() + 20ms));
    CHECK(!other.try_lock_for(-1h) && !other.try_lock_for(1.5us));
    lock.unlock();
    CHECK(!one.held() && !one.lost());
    CHECK(other.try_lock_for(std::chrono::hours::max()));
    CHECK_INT(other.unlock_checked().value(), HF_OK);
    CHECK(other.unlock_checked() == holdfast::errc::invalid);
}

template <class Mutex, bool IsShared> static void check_threads_never_overlap()
{
    holdfast::client store = open_store();
    Mutex shared(store, "busy");
    int inside = 0, entered = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            Mutex own(store, "busy");
            for (int i = 0; i < 100; i++) {
                const std::lock_guard<Mutex> guard(IsShared ? shared : own);
                CHECK_INT(++inside, 1);
                entered++;
                inside--;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK_INT(entered, 400);
}

TEST(threads_with_one_mutex_never_overlap)
{
    check_threads_never_overlap<holdfast::mutex, true>();
}

TEST(threads_with_a_mutex_each_never_overlap)
{
    check_threads_never_overlap<holdfast::mutex, false>();
}

TEST(threads_with_one_fair_mutex_never_overlap)
{
    check_threads_never_overlap<holdfast::fair_mutex, true>();
}

TEST(unique_lock_moved_to_another_thread_is_released_there)
{
    holdfast::client store = open_store();
    holdfast::mutex moved(store, "moved");
    std::unique_lock<holdfast::mutex> lock(moved);
    std::thread([&, mine = std::move(lock)]() mutable {
        CHECK(moved.held());
        mine.unlock();
    }).join();
    CHECK(moved.try_lock());
    moved.unlock();
}

TEST(shared_lock_admits_readers_and_excludes_the_writer)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_RW);
    holdfast::shared_mutex table(store, "table");
    {
        std::shared_lock<holdfast::shared_mutex> reader(table), other(table, 10s);
        CHECK(other.owns_lock() && table.held_shared());
        std::thread([&] {
            const std::shared_lock<holdfast::shared_mutex> third(
                table, std::chrono::steady_clock::now() + 10s);
            CHECK(third.owns_lock());
            CHECK(!table.try_lock() && !table.try_lock_for(20ms));
        }).join();
        CHECK(table.held_shared());
    }
    CHECK(table.unlock_shared_checked() == holdfast::errc::invalid);
    const std::unique_lock<holdfast::shared_mutex> writer(table);
    CHECK(table.held() && !table.held_shared());
    CHECK(!table.try_lock_shared() && !table.try_lock_shared_for(20ms));
}

TEST(readers_and_writers_of_many_threads_keep_apart)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_RW);
    holdfast::shared_mutex table(store, "table");
    int value = 0;
    std::atomic<int> readers{ 0 };
    threads_of(4, [&](int t) {
        for (int i = 0; i < 50; i++) {
            if (t < 2) {
                const std::shared_lock<holdfast::shared_mutex> lock(table);
                const int seen = value;
                readers++;
                std::this_thread::yield();
                CHECK_INT(value, seen);
                readers--;
            } else {
                const std::unique_lock<holdfast::shared_mutex> lock(table);
                CHECK_INT(readers, 0);
                value++;
            }
        }
    });
    CHECK_INT(value, 100);
}

TEST(semaphore_gives_each_permit_once)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_PERMIT);
    holdfast::semaphore slots(store, "slots", 3);
    holdfast::hold two = slots.acquire(2);
    CHECK(two.held() && two.mode() == HF_PERMIT);
    CHECK(!slots.try_acquire(2) && !slots.try_acquire_for(20ms, 2));
    {
        const std::lock_guard<holdfast::semaphore> third(slots);
        CHECK(!slots.try_lock() && !slots.try_acquire());
    }
    CHECK(!two.release());
    CHECK(slots.try_acquire(3).held());
    CHECK_INT(code_thrown_by([&] { (void)holdfast::semaphore(store, "slots", 5).try_acquire(); }),
              HF_EKIND);
    CHECK_INT(code_thrown_by([&] { (void)holdfast::semaphore(store, "none", 0).try_acquire(); }),
              HF_EKIND);
}

TEST(semaphore_total_is_set)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_PERMIT);
    holdfast::semaphore slots(store, "slots", 0);
    CHECK(slots.set_total(1));
    holdfast::hold only = slots.acquire();
    CHECK(!slots.try_acquire() && !slots.set_total(0));
    only.reset();
    CHECK(slots.set_total(0));
}

TEST(hold_moves_and_is_released_once)
{
    holdfast::client store = open_store();
    holdfast::hold first = store.lock("name");
    const uint64_t token = first.token();
    CHECK_STR(first.name(), "name");
    CHECK(!store.try_lock("name") && !store.try_lock_for("name", 20ms));
    holdfast::hold second = std::move(first);
    CHECK(!first && !first.held() && first.token() == 0 && !first.release());
    CHECK(second && second.held() && second.token() == token);
    holdfast::hold third;
    third = std::move(second);
    holdfast::hold &same = third;
    third = std::move(same);
    CHECK(third.held());
    third = store.lock("another");
    CHECK(store.try_lock("name").held());
    CHECK_STR(third.name(), "another");
    std::thread([mine = std::move(third)]() mutable { CHECK(!mine.release()); }).join();
    CHECK(store.try_lock("another").held());
}

TEST(hold_with_a_lease_is_renewed_and_left_to_the_store)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_DETACH);
    holdfast::lock_options leased;
    leased.lease = 20s;
    holdfast::hold first = store.lock("leased", leased);
    CHECK(first.remaining() <= 20s);
    first.renew(60s);
    CHECK(first.remaining() > 30s);
    CHECK_INT(code_thrown_by([&] { first.renew(1ms); }), HF_EINVAL);
    const std::string key = first.detach();
    CHECK(!first && !store.try_lock("leased"));
    holdfast::hold again = holdfast::hold::attach(store.get(), "leased", key);
    CHECK(again.held() && !again.release());
    CHECK_INT(code_thrown_by([&] { holdfast::hold::attach(store.get(), "leased", key); }), HF_LOST);
}

TEST(hold_is_upgraded_and_downgraded)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_RW | HF_CAP_UPGRADE);
    holdfast::lock_options upgradable;
    upgradable.mode = HF_UPGRADE;
    holdfast::hold mine = store.lock("table", upgradable);
    {
        holdfast::shared_mutex table(store, "table");
        const std::shared_lock<holdfast::shared_mutex> reader(table);
        CHECK(!mine.upgrade_for(20ms));
    }
    CHECK(mine.upgrade_for(10s) && mine.mode() == HF_WRITE);
    mine.downgrade(HF_READ);
    CHECK(mine.mode() == HF_READ);
    CHECK_INT(code_thrown_by([&] { mine.downgrade(HF_WRITE); }), HF_EINVAL);
}

TEST(thread_as_owner_re_enters)
{
    holdfast::client store = open_store();
    holdfast::lock_options by_thread;
    by_thread.owner = HF_OWNER_THREAD;
    holdfast::mutex again(store, "again", by_thread);
    const std::lock_guard<holdfast::mutex> outer(again), inner(again);
    std::thread([&] { CHECK(!again.try_lock()); }).join();
}

TEST(errors_are_exceptions_with_codes)
{
    try {
        holdfast::client wrong("carrier-pigeon:");
        FAIL("that store was opened");
    } catch (const std::system_error &failure) {
        CHECK(failure.code() == holdfast::errc::invalid);
        CHECK(failure.code() == std::errc::invalid_argument);
        CHECK_STR(failure.code().category().name(), "holdfast");
        CHECK(std::strstr(failure.what(), "carrier-pigeon") != nullptr);
    }
    CHECK(make_error_code(holdfast::errc::busy) == std::errc::timed_out);
    CHECK(make_error_code(holdfast::errc::unreachable) == std::errc::host_unreachable);
    CHECK(make_error_code(holdfast::errc::denied) == std::errc::permission_denied);
    CHECK(make_error_code(holdfast::errc::lost).message() == hf_code_text(HF_LOST));
    CHECK(is_lost_elsewhere(make_error_code(holdfast::errc::lost)));

    holdfast::client store = open_store();
    const std::string too_long(HF_NAME_MAX + 1, 'a');
    CHECK_INT(code_thrown_by([&] { (void)store.lock(too_long); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { holdfast::mutex(store, "").lock(); }), HF_EINVAL);
    holdfast::lock_options counter;
    counter.mode = HF_COUNTER;
    CHECK_INT(code_thrown_by([&] { (void)store.lock("counter", counter); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { (void)holdfast::lock_all({}); }), HF_EINVAL);
}

TEST(name_with_a_nul_is_no_shorter_name)
{
    holdfast::client store = open_store();
    const std::string name("a\0b", 3);
    CHECK_INT(code_thrown_by([&] { (void)store.lock(name); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { holdfast::mutex(store, name).lock(); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { holdfast::semaphore(store, name, 1).set_total(2); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { (void)holdfast::lock_all({ { store, name } }); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { (void)holdfast::election(store, name).leader(); }), HF_EINVAL);
    CHECK_INT(code_thrown_by([&] { (void)holdfast::hold::attach(store.get(), name, "x"); }),
              HF_EINVAL);
    CHECK(store.try_lock("a").held());
}

TEST(durations_are_rounded_up)
{
    using holdfast::detail::wait_ms;
    CHECK_INT(wait_ms(300us), 1);
    CHECK_INT(wait_ms(1001us), 2);
    CHECK_INT(wait_ms(2s), 2000);
    CHECK_INT(wait_ms(0s), 0);
    CHECK_INT(wait_ms(-5h), 0);
    CHECK_INT(wait_ms(std::chrono::duration<double>(0.0021)), 3);
    CHECK_INT(wait_ms(std::chrono::nanoseconds::max()), INT64_MAX / 1000000 + 1);
    CHECK_INT(wait_ms(std::chrono::minutes::max()), HF_FOREVER);
    CHECK_INT(wait_ms(holdfast::forever), HF_FOREVER);
}

TEST(ends_of_a_clock_are_long_past_and_far_away)
{
    using holdfast::detail::wait_until_ms;
    using std::chrono::steady_clock;
    using std::chrono::system_clock;
    using hours = std::chrono::time_point<steady_clock, std::chrono::hours>;
    CHECK_INT(wait_until_ms(system_clock::time_point::min()), 0);
    CHECK_INT(wait_until_ms(steady_clock::time_point::min()), 0);
    CHECK_INT(wait_until_ms(hours::min()), 0);
    CHECK_INT(wait_until_ms(hours::max()), HF_FOREVER);
    const int64_t years_200 = INT64_C(200) * 365 * 86400 * 1000;
    CHECK(wait_until_ms(system_clock::time_point::max()) > years_200);
    const int64_t soon = wait_until_ms(system_clock::now() + 1h);
    CHECK(soon > 3599000 && soon <= 3600000);
}

/* ---- Losses ---- */

static std::atomic<int> failures{ 0 };

static void count_failure(const char *name, std::error_code code) noexcept
{
    CHECK_STR(name, "lost");
    CHECK(code == holdfast::errc::lost);
    CHECK(std::strlen(hf_last_error()->text) > 10);
    failures++;
}

TEST(loss_is_told_by_callback_and_by_unlock)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_BREAK);
    holdfast::on_release_failure(count_failure);
    std::atomic<int> losses{ 0 };
    holdfast::lock_options watched;
    watched.on_lost = [&](const hf_loss &loss) {
        CHECK_STR(loss.name, "lost");
        losses++;
    };
    holdfast::mutex mine(store, "lost", watched);
    {
        const std::lock_guard<holdfast::mutex> guard(mine);
        break_lock(store, "lost");
        EVENTUALLY(losses == 1, 20000);
        CHECK(mine.lost() && !mine.held());
        CHECK_INT(failures, 0);
    }
    CHECK_INT(failures, 1);
    CHECK(!mine.lost());
    {
        const holdfast::hold hold = store.lock("lost", watched);
        break_lock(store, "lost");
        EVENTUALLY(losses == 2, 20000);
    }
    CHECK_INT(failures, 2);
    mine.lock();
    break_lock(store, "lost");
    CHECK(mine.unlock_checked() == holdfast::errc::lost);
    CHECK_INT(failures, 2);
    holdfast::on_release_failure(nullptr);
    mine.lock();
    break_lock(store, "lost");
    mine.unlock();
    CHECK_INT(failures, 2);
}

TEST(loss_callback_may_release_its_own_hold)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_BREAK);
    holdfast::hold mine;
    std::mutex guard;
    std::atomic<bool> was_released{ false };
    holdfast::lock_options watched;
    watched.on_lost = [&, big = std::string(100, 'x')](const hf_loss &) {
        const std::lock_guard<std::mutex> locked(guard);
        mine.reset();
        CHECK(big.size() == 100); /* the function has not been freed */
        was_released = true;
    };
    {
        const std::lock_guard<std::mutex> locked(guard);
        mine = store.lock("lost", watched);
    }
    watched.on_lost = nullptr;
    break_lock(store, "lost");
    EVENTUALLY(was_released, 20000);
    CHECK(store.try_lock_for("lost", 10s).held());
}

TEST(old_owner_of_a_lost_mutex_does_not_release_the_next_one)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_BREAK);
    holdfast::mutex shared(store, "shared");
    shared.lock();
    break_lock(store, "shared");
    EVENTUALLY(shared.lost(), 20000);
    std::promise<void> old_owner_has_left;
    std::promise<void> next_owner_is_in;
    std::thread next([&] {
        shared.lock();
        next_owner_is_in.set_value();
        old_owner_has_left.get_future().wait();
        CHECK(shared.held() && !shared.lost());
        CHECK(!store.try_lock("shared"));
        CHECK(!shared.unlock_checked());
    });
    next_owner_is_in.get_future().wait();
    CHECK(shared.lost());
    CHECK(shared.unlock_checked() == holdfast::errc::lost);
    old_owner_has_left.set_value();
    next.join();
}

/* ---- Several locks at once ---- */

TEST(lock_all_in_opposite_orders_ends)
{
    holdfast::client store = open_store();
    int entered = 0;
    threads_of(4, [&](int t) {
        for (int i = 0; i < 50; i++) {
            const holdfast::hold_set both =
                t % 2 ? holdfast::lock_all({ { store, "a" }, { store, "b" } })
                      : holdfast::lock_all({ { store, "b" }, { store, "a" } });
            CHECK(both.held());
            entered++;
        }
    });
    CHECK_INT(entered, 200);
}

TEST(lock_all_takes_all_or_nothing)
{
    holdfast::client store = open_store();
    holdfast::hold other = store.lock("b");
    CHECK(!holdfast::try_lock_all_for(20ms, { { store, "a" }, { store, "b" } }));
    CHECK(store.try_lock_for("a", 10s).held());
    other.reset();
    holdfast::hold_set both = holdfast::try_lock_all_for(10s, { { store, "a" }, { store, "b" } });
    CHECK(both.held() && both.remaining() > 0ms);
    CHECK((both.token(1) > 0) == ((store.caps() & HF_CAP_TOKEN) != 0) && both.token(2) == 0);
    holdfast::hold_set moved = std::move(both);
    CHECK(!both && !both.held() && moved.held());
    CHECK(!store.try_lock("a") && !store.try_lock("b"));
    CHECK(!moved.release() && !moved);
    CHECK(store.try_lock("b").held());
}

TEST(lock_all_tells_a_loss)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_BREAK);
    holdfast::on_release_failure(count_failure);
    std::atomic<int> losses{ 0 };
    holdfast::lock_options watched;
    watched.on_lost = [&](const hf_loss &) { losses++; };
    {
        const auto both = holdfast::lock_all({ { store, "lost" }, { store, "other" } }, watched);
        break_lock(store, "other");
        EVENTUALLY(losses == 1, 20000);
        CHECK(!both.held());
    }
    CHECK_INT(failures, 1);
}
