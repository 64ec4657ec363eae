/* SPDX-License-Identifier: Apache-2.0 */
/* A box office in C++: four clerks sell the seats of one hall, each seat once.
 *
 * The hall keeps the number of the next free seat, and the largest fencing token that it was given.
 * A clerk whose lock was lost is refused by the hall, and knows it from unlock_checked(). */
#include <holdfast.hpp>

#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

static const int seats = 60, clerks = 4;

/* Stands for a database: each function is one transaction of it. */
class hall
{
  public:
    /* The first request after the grant: from now on, smaller tokens are refused. */
    bool claim(uint64_t token)
    {
        const std::lock_guard<std::mutex> transaction(mutex_);
        if (token < token_)
            return false;
        token_ = token;
        return true;
    }
    int next_seat()
    {
        const std::lock_guard<std::mutex> transaction(mutex_);
        return next_;
    }
    bool sell(int seat, const std::string &visitor, uint64_t token)
    {
        const std::lock_guard<std::mutex> transaction(mutex_);
        if (token < token_)
            return false;
        tickets_.emplace(seat, visitor);
        next_ = seat + 1;
        return true;
    }
    std::size_t tickets() const
    {
        return tickets_.size();
    }
    std::size_t seats_sold() const
    {
        return static_cast<std::size_t>(next_ - 1);
    }

  private:
    std::mutex mutex_;
    uint64_t token_ = 0;
    int next_ = 1;
    std::multimap<int, std::string> tickets_;
};

/* Returns: false when the hall is sold out. */
static bool sell_one(holdfast::client &store, hall &concert, const std::string &visitor)
{
    holdfast::mutex door(store, "halls/main");
    std::unique_lock<holdfast::mutex> lock(door, 10s);
    if (!lock.owns_lock() || !concert.claim(door.token()))
        return true; /* too busy, or late: the visitor tries again */
    const int seat = concert.next_seat();
    if (seat > seats)
        return false;
    const bool is_sold = concert.sell(seat, visitor, door.token());
    lock.release();
    if (const std::error_code failure = door.unlock_checked())
        std::printf("seat %d: %s; the hall %s it\n", seat, failure.message().c_str(),
                    is_sold ? "sold" : "refused");
    return true;
}

static void work(holdfast::client &store, hall &concert, int clerk)
try {
    int visitor = 0;
    while (sell_one(store, concert, std::to_string(clerk) + "/" + std::to_string(++visitor))) {
    }
} catch (const holdfast::error &failure) {
    std::fprintf(stderr, "box_office: %s\n", failure.what());
}

int main()
try {
    holdfast::client store; /* $HOLDFAST_URL, or local: */
    hall concert;
    std::vector<std::thread> threads;
    for (int clerk = 1; clerk <= clerks; clerk++)
        threads.emplace_back(work, std::ref(store), std::ref(concert), clerk);
    for (std::thread &thread : threads)
        thread.join();
    std::printf("%zu tickets for %zu seats, each sold once\n", concert.tickets(),
                concert.seats_sold());
    return concert.tickets() == seats && concert.seats_sold() == seats ? 0 : 1;
} catch (const holdfast::error &failure) {
    std::fprintf(stderr, "box_office: %s\n", failure.what());
    return 1;
}
