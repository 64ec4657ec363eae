/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.hpp on a real store: elections, rate limiters, circles of threads. */
#include "store.hpp"

using namespace std::chrono_literals;

TEST(leadership_passes_on_when_it_is_resigned)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_INSPECT);
    holdfast::election boss(store, "boss");
    CHECK(!boss.leader().leads);
    holdfast::lock_options how;
    how.owner_text = "one:80";
    {
        holdfast::leadership first = boss.campaign(how);
        const hf_leader seen = boss.leader();
        CHECK(seen.leads && seen.token == first.token());
        if (!getenv("HOLDFAST_TEST_URL"))
            CHECK_STR(seen.text, "one:80");
        CHECK(!boss.try_campaign_for(0s));
        const holdfast::leadership moved = std::move(first);
        CHECK(!first && moved.held());
    }
    CHECK(!boss.leader().leads);
    CHECK(boss.try_campaign_for(10s).held());
}

TEST(watch_tells_of_leaders_until_it_ends)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_INSPECT);
    holdfast::election boss(store, "boss");
    std::atomic<int> leaders{ 0 }, vacancies{ 0 };
    auto watch =
        boss.watch([&](const hf_leader &now) { (now.leads ? leaders : vacancies)++; }, 10ms);
    EVENTUALLY(vacancies == 1, 20000);
    {
        const holdfast::leadership mine = boss.campaign();
        EVENTUALLY(leaders > 0, 20000);
    }
    EVENTUALLY(vacancies == 2, 20000);
    const auto copy = std::move(watch);
    CHECK_INT(code_thrown_by([&] { (void)boss.watch(nullptr, 1ms); }), HF_EINVAL);
}

/* What a function has captured lives until it returns, also when it ends its own watch. */
TEST(watch_may_be_ended_by_its_own_function)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_INSPECT);
    const auto own = std::make_shared<std::shared_ptr<hf_watch>>();
    const auto captured = std::make_shared<int>(1);
    std::promise<void> begun;
    std::promise<long> seen;
    *own = holdfast::election(store, "boss")
               .watch([own, captured, go = begun.get_future().share(), &seen](const hf_leader &) {
                   go.wait();
                   own->reset();
                   seen.set_value(captured.use_count());
               });
    begun.set_value();
    CHECK_INT(seen.get_future().get(), 2);
    EVENTUALLY(captured.use_count() == 1, 20000);
}

TEST(rate_limiter_refuses_and_says_when)
{
    holdfast::client store = open_store();
    need(store, HF_CAP_RATE);
    holdfast::rate_limiter mail(store, "mail", 2, 1h), fast(store, "fast", 20, 1s, 1);
    std::chrono::milliseconds retry = 1h;
    CHECK(mail.try_take(1, &retry) && retry == 0s);
    mail.take();
    CHECK(!mail.try_take(1, &retry) && retry > 1s && retry <= 30min);
    CHECK(!mail.try_take_for(1s));
    CHECK_INT(code_thrown_by([&] { mail.take(3); }), HF_EINVAL);
    for (int i = 0; i < 3; i++)
        CHECK(fast.try_take_for(10s));
}

TEST(one_thread_of_a_circle_is_told)
{
    holdfast::client store = open_store();
    std::atomic<int> holders{ 0 }, told{ 0 };
    threads_of(2, [&](int t) {
        holdfast::lock_options by_thread;
        by_thread.owner = HF_OWNER_THREAD;
        by_thread.deadlock = 1h;
        const holdfast::hold own = store.lock(t ? "a" : "b", by_thread);
        holders++;
        EVENTUALLY(holders == 2, 20000);
        if (code_thrown_by([&] { (void)store.lock(t ? "b" : "a", by_thread); }) == HF_EDEADLK)
            told++;
    });
    CHECK_INT(told, 1);
}
