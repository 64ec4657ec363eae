/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast for C++17 and later: a thin layer over holdfast.h, in this header alone.
 *
 *     holdfast::client store("redis://127.0.0.1");
 *     holdfast::mutex orders(store, "orders/42");
 *     std::unique_lock lock(orders);                  // or std::lock_guard
 *     write_order(42, orders.token());                // the resource compares the token
 *     lock.release();                                 // unlock_checked() comes in its place
 *     if (orders.unlock_checked() == holdfast::errc::lost)
 *         undo_order(42);
 *
 * What holdfast.h promises holds here, too. In particular:
 *
 *  - Units. Times are std::chrono durations, rounded up to a millisecond. A negative one is zero.
 *    `forever`, and any duration above 30,000 years, is a wait without a limit.
 *  - Owners. Each acquisition is an owner of its own (HF_OWNER_NEW), whatever thread makes it. Two
 *    acquisitions of one name exclude each other, in one thread, too: nothing re-enters. Any thread
 *    may release what another one has acquired. lock_options.owner chooses otherwise.
 *  - Lifetime. A client outlives its mutexes, holds and sets: declare it before them. Names and
 *    options are copied.
 *  - Threads. Any thread may call anything on a client, a mutex or a semaphore. A hold and a set
 *    are values: two threads that use the same one need a mutex of their own.
 *  - Errors. A function that is not noexcept throws holdfast::error, or std::bad_alloc. "Another
 *    owner has it" is no error of the functions that try: they return false, or an empty hold.
 *  - Destructors never throw. They release and wait for the store's reply, for up to the client's
 *    request_timeout_ms. What went wrong then, HF_LOST above all, goes to on_release_failure().
 *    Call hold::release() or unlock_checked() where the result matters.
 *  - Callbacks (on_lost, resume_on) run on the client's loop, and must not block or throw.
 *
 * Counters, latches, inspecting and breaking have no class: client::get() is for holdfast.h.
 *
 * With C++20 there are waits that a std::stop_token ends, and client::lock_async for coroutines. */
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#if __cplusplus < 201703L
#error "holdfast.hpp needs C++17: compile with -std=c++17 or later, or use holdfast.h"
#endif
#if defined(__GNUC__) && !defined(__EXCEPTIONS)
#error "holdfast.hpp throws exceptions: compile without -fno-exceptions, or use holdfast.h"
#endif

#include <holdfast.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L
#include <version>
#endif
#ifdef __cpp_lib_jthread
#include <stop_token>
#define HOLDFAST_HAS_STOP_TOKEN 1
#ifdef __cpp_lib_coroutine
#include <coroutine>
#define HOLDFAST_HAS_COROUTINES 1
#endif
#endif

namespace holdfast
{

/* ---- Errors ---- */

/* The codes of holdfast.h. `error.code() == holdfast::errc::denied` compares them. */
enum class errc {
    busy = HF_BUSY,
    lost = HF_LOST,
    canceled = HF_CANCELED,
    unreachable = HF_UNREACHABLE,
    denied = HF_DENIED,
    invalid = HF_EINVAL,
    deadlock = HF_EDEADLK,
    kind = HF_EKIND,
    not_supported = HF_ENOTSUP,
    forked = HF_EFORKED,
    closed = HF_ECLOSED,
    no_memory = HF_ENOMEM,
    limit = HF_ELIMIT,
    corrupt = HF_ECORRUPT,
    internal = HF_EINTERNAL
};

namespace detail
{

class category final : public std::error_category
{
public:
    const char *name() const noexcept override { return "holdfast"; }
    std::string message(int code) const override { return hf_code_text(code); }
    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (code) {
        case HF_BUSY: return std::errc::timed_out;
        case HF_CANCELED: return std::errc::operation_canceled;
        case HF_UNREACHABLE: return std::errc::host_unreachable;
        case HF_DENIED: return std::errc::permission_denied;
        case HF_EINVAL: return std::errc::invalid_argument;
        case HF_EDEADLK: return std::errc::resource_deadlock_would_occur;
        case HF_ENOTSUP: return std::errc::not_supported;
        case HF_ENOMEM: return std::errc::not_enough_memory;
        default: return { code, *this };
        }
    }
};

}

/* The category of all codes, called "holdfast". Where std::errc has a code of the same meaning
 * (timed_out, host_unreachable, permission_denied, ...), a code compares equal to that, too. */
inline const std::error_category &category() noexcept
{
    static const detail::category instance;
    return instance;
}

inline std::error_code make_error_code(errc code) noexcept
{
    return { static_cast<int>(code), category() };
}

}

template <> struct std::is_error_code_enum<holdfast::errc> : std::true_type {
};

namespace holdfast
{

/* What the functions here throw: code() says what to do next, what() is a sentence for a human. */
class error : public std::system_error
{
public:
    explicit error(const hf_error &from)
        : std::system_error(std::error_code(from.code, category())), native_(from.native),
          text_(std::make_shared<const std::string>(from.text))
    {
    }
    /* One line: what is wrong, where, and what to do about it. */
    const char *what() const noexcept override { return text_->c_str(); }
    /* The number that the store or the system uses (errno), or 0. */
    int native() const noexcept { return native_; }

private:
    int native_;
    /* Copying an exception must not throw. */
    std::shared_ptr<const std::string> text_;
};

/* Receives what a destructor or an unlock() could not return: the name, and errc::lost or another
 * code. hf_last_error() has the sentence. Runs on the thread that has released. */
using release_failure = void (*)(const char *name, std::error_code code) noexcept;

namespace detail
{

inline std::atomic<release_failure> &release_failure_handler() noexcept
{
    static std::atomic<release_failure> handler{ nullptr };
    return handler;
}

/* Throws for any code but HF_OK. It has to be called right after what has returned the code. */
inline void check(int code)
{
    if (code != HF_OK)
        throw error(*hf_last_error());
}

[[noreturn]] inline void refuse(const char *text)
{
    hf_error refusal = { HF_EINVAL, 0, {} };
    std::strncpy(refusal.text, text, sizeof(refusal.text) - 1);
    throw error(refusal);
}

/* Rounds up: 300 µs as 0 would be one attempt without a wait. */
template <class Rep, class Period> int64_t wait_ms(const std::chrono::duration<Rep, Period> &time)
{
    if (!(time > time.zero()))
        return 0;
    /* The largest durations do not fit into another unit. */
    if (std::chrono::duration<double>(time).count() > 1e12)
        return HF_FOREVER;
    return int64_t{ std::chrono::ceil<std::chrono::milliseconds>(time).count() };
}

/* The library's strings end at a NUL, and so this would be another name. */
inline const char *c_name(const std::string &name)
{
    const bool whole = name.find('\0') == std::string::npos;
    return whole ? name.c_str() : (refuse("the lock's name has a NUL in it"), nullptr);
}

/* A function that is told something, at an address that stays. */
template <class Told> struct handler : std::enable_shared_from_this<handler<Told>> {
    explicit handler(std::function<void(const Told &)> given) : call(std::move(given)) {}
    static void run(void *arg, const Told *told) noexcept
    {
        /* The function may end its own hold or watch, which has the only other reference. */
        const auto self = static_cast<handler *>(arg)->shared_from_this();
        self->call(*told);
    }
    const std::function<void(const Told &)> call;
};
using loss_handler = handler<hf_loss>;

}

/* Sets what receives failures of releases in destructors and unlock(), for the whole program.
 * nullptr, as at first: nothing does. */
inline void on_release_failure(release_failure handler) noexcept
{
    detail::release_failure_handler().store(handler);
}

/* A wait without a limit. */
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

/* How to acquire. The members mean what those of hf_lock_options mean. */
struct lock_options {
    hf_mode mode = HF_MUTEX; /* for client::lock; a mutex and a semaphore have modes of their own.
                                HF_COUNTER and HF_LATCH have no hold, and are errc::invalid */
    std::chrono::milliseconds lease{ 0 }; /* 0: held and renewed until released */
    uint32_t permits = 0;                 /* HF_PERMIT: 0 means 1 */
    uint32_t limit = 0;                   /* HF_PERMIT: makes the semaphore if there is none */
    uint64_t owner = HF_OWNER_NEW;        /* HF_OWNER_THREAD: the thread re-enters its own lock */
    /* Runs once for each hold that is lost, unless its release finds the loss first. It may release
     * the hold, without a wait. It does not run after the release has returned. */
    std::function<void(const hf_loss &)> on_lost;
    const char *owner_text = nullptr; /* shown to observers of an election. nullptr: the client's */
    /* With HF_OWNER_THREAD: how long a wait lasts before it looks for a circle of waits that it is
     * part of. 0: the library's own choice. A circle is errc::deadlock. `forever`: never looks */
    std::chrono::milliseconds deadlock{ 0 };
};

namespace detail
{

/* The name of a hold for on_release_failure(), which runs when the hold is no more. */
class copy_of_name
{
public:
    explicit copy_of_name(const hf_hold *of) noexcept : handler_(release_failure_handler().load())
    {
        const char *name = hf_hold_name(of);
        if (handler_)
            std::memcpy(name_, name, std::strlen(name) + 1);
    }
    void report(std::error_code code) const noexcept
    {
        if (code && handler_)
            handler_(name_, code);
    }

private:
    release_failure handler_;
    char name_[HF_NAME_MAX + 1];
};

/* What a request needs of its options, made once for many requests. */
struct terms {
    terms(const lock_options &options, hf_mode mode)
    {
        if (mode == HF_COUNTER || mode == HF_LATCH)
            refuse("HF_COUNTER and HF_LATCH have no hold; use hf_counter_take and hf_latch_wait");
        with.mode = mode;
        with.permits = options.permits;
        with.limit = options.limit;
        with.lease_ms = int64_t{ options.lease.count() };
        with.owner = options.owner;
        with.deadlock_ms = wait_ms(options.deadlock);
        if (options.owner_text) {
            text = std::make_shared<const std::string>(options.owner_text);
            with.owner_text = text->c_str();
        }
        if (options.on_lost) {
            on_lost = std::make_shared<loss_handler>(options.on_lost);
            with.on_lost = loss_handler::run;
            with.lost_arg = on_lost.get();
        }
    }
    hf_lock_options with = HF_LOCK_OPTIONS_INIT;
    std::shared_ptr<loss_handler> on_lost;
    std::shared_ptr<const std::string> text;
};

}

/* ---- Holds ---- */

/* One acquisition. Moves, and is released by its destructor. Empty: nothing was acquired, or it was
 * released or moved from. An empty hold is false, has the token 0, and releases nothing. */
class hold
{
public:
    hold() noexcept = default;
    /* Takes ownership of a hold of holdfast.h. Its on_lost, if any, is the caller's to keep. */
    explicit hold(hf_hold *raw, std::shared_ptr<detail::loss_handler> on_lost = nullptr) noexcept
        : raw_(raw, closer{ std::move(on_lost) })
    {
    }
    /* Takes over a lock that another process has left by detach().
     * Throws errc::lost: the name is not held under this key, or not any more. */
    static hold attach(hf_client *store, const std::string &name, const std::string &owner_key)
    {
        hf_hold *raw = nullptr;
        detail::check(hf_attach(store, detail::c_name(name), owner_key.c_str(), &raw));
        return hold(raw);
    }

    /* Whether there is something to release. It may be lost: see held(). */
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    hf_hold *get() const noexcept { return raw_.get(); }
    /* True only while no other owner can exist. Once false, it stays false. */
    bool held() const noexcept { return hf_held(get()); }
    bool lost() const noexcept { return raw_ && !held(); }
    /* The fencing token, for the resource to compare; 0 where the store has none. */
    uint64_t token() const noexcept { return hf_token(get()); }
    /* For how long held() stays true without a renewal. `forever`: no lease limits it. */
    std::chrono::milliseconds remaining() const noexcept
    {
        return std::chrono::milliseconds(hf_remaining_ms(get()));
    }
    /* Lives as long as the hold. */
    const char *name() const noexcept { return hf_hold_name(get()); }
    hf_mode mode() const noexcept { return hf_hold_mode(get()); }

    /* Releases it, waits for the store's reply, and leaves this hold empty in any case. Returns: no
     * error; errc::lost, another owner may have had it; or a code of hf_unlock. On the client's
     * loop, as in a coroutine without resume_on, it waits for no reply, and tells what is known. */
    [[nodiscard]] std::error_code release() noexcept
    {
        const int code = hf_unlock(raw_.release());
        raw_.get_deleter().on_lost.reset();
        return { code, category() };
    }
    /* The same, for a caller that does not look at the result: on_release_failure() receives it. */
    void reset() noexcept { raw_.reset(); }
    /* Lets the lease end `lease` from now. Throws errc::lost: too late. */
    void renew(std::chrono::milliseconds lease)
    {
        detail::check(hf_renew(get(), int64_t{ lease.count() }));
    }
    /* Turns HF_UPGRADE into HF_WRITE. Returns: false if readers are left when `wait` is over. */
    template <class Rep, class Period>
    bool upgrade_for(const std::chrono::duration<Rep, Period> &wait)
    {
        const int code = hf_upgrade(get(), detail::wait_ms(wait));
        if (code != HF_BUSY)
            detail::check(code);
        return code == HF_OK;
    }
    /* Turns HF_WRITE or HF_UPGRADE into the weaker `mode`, and lets no other owner in between. */
    void downgrade(hf_mode mode) { detail::check(hf_downgrade(get(), mode)); }
    /* Leaves a lock with a lease of its own to the store, for attach() in another process, and
     * this hold empty. Returns: the key. If it throws, the hold is what it was. */
    std::string detach()
    {
        char key[HF_OWNER_KEY_SIZE];
        detail::check(hf_detach(get(), key));
        (void)raw_.release();
        raw_.get_deleter().on_lost.reset();
        return key;
    }

private:
    struct closer {
        void operator()(hf_hold *raw) const noexcept
        {
            const detail::copy_of_name name(raw);
            name.report({ hf_unlock(raw), category() });
        }
        std::shared_ptr<detail::loss_handler> on_lost;
    };
    std::unique_ptr<hf_hold, closer> raw_;
};

/* ---- Waiting, as blocking calls and as coroutines do it ---- */

namespace detail
{

/* The hold, or an empty one with HF_BUSY and HF_CANCELED: a limit or a stop was asked for. */
inline hold hold_of(int code, hf_hold *raw, const hf_error *failure,
                    const std::shared_ptr<loss_handler> &on_lost)
{
    if (code != HF_OK && code != HF_BUSY && code != HF_CANCELED)
        throw error(*failure);
    return code == HF_OK ? hold(raw, on_lost) : hold();
}

inline hold acquire(hf_client *store, const std::string &name, int64_t wait_ms, const terms &how)
{
    hf_hold *raw = nullptr;
    const int code = hf_lock(store, c_name(name), wait_ms, &how.with, &raw);
    return hold_of(code, raw, hf_last_error(), how.on_lost);
}

#ifdef HOLDFAST_HAS_STOP_TOKEN

struct canceler {
    hf_client *store;
    hf_request request;
    void operator()() const noexcept { hf_cancel(store, request); }
};

inline hold acquire(hf_client *store, const std::string &name, int64_t wait_ms, const terms &how,
                    const std::stop_token &stop)
{
    hf_stop ends = HF_STOP_INIT;
    hf_lock_options with = how.with;
    with.stop = &ends;
    const auto end = [&ends]() noexcept { hf_stop_set(&ends); };
    const std::stop_callback<decltype(end)> on_stop(stop, end);
    hf_hold *raw = nullptr;
    const int code = hf_lock(store, c_name(name), wait_ms, &with, &raw);
    return hold_of(code, raw, hf_last_error(), how.on_lost);
}

#endif

}

#ifdef HOLDFAST_HAS_COROUTINES

/* How client::lock_async waits. */
struct async_options {
    std::chrono::milliseconds wait = forever;
    std::stop_token stop; /* ends the wait; with HF_DRIVE_CALLER, on the loop's thread alone */
    /* Where the coroutine goes on, as by posting `coroutine` to a pool of threads. Empty: on the
     * client's loop. Then the coroutine must not block before it is suspended again. */
    std::function<void(std::coroutine_handle<> coroutine)> resume_on;
};

/* What client::lock_async returns, to be awaited at once. The coroutine must not be destroyed while
 * it waits: stop it, and let it end. */
class lock_awaiter
{
public:
    lock_awaiter(hf_client *store, std::string name, const lock_options &how, async_options wait)
        : store_(store), name_(std::move(name)), how_(how, how.mode), wait_(std::move(wait))
    {
        detail::c_name(name_);
    }
    bool await_ready() const noexcept { return wait_.stop.stop_requested(); }
    /* Two come to the end of this, in either order: this function, when it does not touch the
     * request any more, and the reply. The second one lets the coroutine go on. */
    bool await_suspend(std::coroutine_handle<> coroutine) noexcept
    {
        hf_request id = 0;
        coroutine_ = coroutine;
        const int code = hf_lock_async(store_, name_.c_str(), detail::wait_ms(wait_.wait),
                                       &how_.with, done, this, &id);
        if (code != HF_OK) {
            code_ = code;
            failure_ = *hf_last_error();
            return false;
        }
        if (wait_.stop.stop_possible())
            on_stop_.emplace(wait_.stop, detail::canceler{ store_, id });
        return !is_second_.exchange(true);
    }
    hold await_resume()
    {
        on_stop_.reset();
        if (!coroutine_)
            return hold();
        return detail::hold_of(code_, raw_, &failure_, how_.on_lost);
    }

private:
    static void done(void *arg, int code, hf_hold *hold, const hf_error *error) noexcept
    {
        auto *self = static_cast<lock_awaiter *>(arg);
        self->code_ = code;
        self->raw_ = hold;
        if (error)
            self->failure_ = *error;
        if (!self->is_second_.exchange(true))
            return;
        /* This object ends with the coroutine, maybe before resume_on has returned. */
        const auto coroutine = self->coroutine_;
        const auto resume_on = std::move(self->wait_.resume_on);
        if (resume_on)
            resume_on(coroutine);
        else
            coroutine.resume();
    }

    hf_client *store_;
    std::string name_;
    detail::terms how_;
    async_options wait_;
    int code_ = HF_OK;
    hf_hold *raw_ = nullptr;
    hf_error failure_ = {};
    std::coroutine_handle<> coroutine_;
    std::atomic<bool> is_second_{ false };
    std::optional<std::stop_callback<detail::canceler>> on_stop_;
};

#endif

/* ---- Clients ---- */

/* A store, opened once for a process and shared by its threads. Moves; its destructor releases all
 * that is held (hf_close). */
class client
{
public:
    /* `url` as hf_open takes it; nullptr: $HOLDFAST_URL, or "local:". The options are those of
     * holdfast.h: HF_CLIENT_OPTIONS_INIT, and then what differs.
     * Throws what hf_open returns. A store behind a network is not contacted yet. */
    explicit client(const char *url = nullptr,
                    const hf_client_options &options = HF_CLIENT_OPTIONS_INIT)
    {
        hf_client *raw = nullptr;
        detail::check(hf_open(&raw, url, &options));
        raw_.reset(raw);
    }
    explicit client(const std::string &url,
                    const hf_client_options &options = HF_CLIENT_OPTIONS_INIT)
        : client(url.c_str(), options)
    {
    }
    hf_client *get() const noexcept { return raw_.get(); }
    /* An OR of HF_CAP_...: what the store can do. */
    unsigned caps() const noexcept { return hf_caps(get()); }

    /* Waits without a limit. Never returns an empty hold. */
    [[nodiscard]] hold lock(const std::string &name, const lock_options &how = {})
    {
        return detail::acquire(get(), name, HF_FOREVER, { how, how.mode });
    }
    /* Returns: an empty hold while another owner has the lock. */
    [[nodiscard]] hold try_lock(const std::string &name, const lock_options &how = {})
    {
        return detail::acquire(get(), name, 0, { how, how.mode });
    }
    /* Returns: an empty hold if another owner still has the lock when `wait` is over. */
    template <class Rep, class Period>
    [[nodiscard]] hold try_lock_for(const std::string &name,
                                    const std::chrono::duration<Rep, Period> &wait,
                                    const lock_options &how = {})
    {
        return detail::acquire(get(), name, detail::wait_ms(wait), { how, how.mode });
    }
#ifdef HOLDFAST_HAS_STOP_TOKEN
    /* Waits until the lock is acquired, or a stop is requested. A stop that comes with the grant
     * may be too late.
     * Returns: an empty hold if it was stopped. */
    [[nodiscard]] hold lock(const std::string &name, const std::stop_token &stop,
                            const lock_options &how = {})
    {
        return detail::acquire(get(), name, HF_FOREVER, { how, how.mode }, stop);
    }
#endif
#ifdef HOLDFAST_HAS_COROUTINES
    /* For `holdfast::hold held = co_await store.lock_async(name)`. No thread waits.
     * The hold is empty if the wait of `wait` is over, or was stopped. Errors are thrown by the
     * co_await; errc::closed: the client was closed meanwhile. */
    [[nodiscard]] lock_awaiter lock_async(std::string name, const lock_options &how = {},
                                          async_options wait = {})
    {
        return lock_awaiter(get(), std::move(name), how, std::move(wait));
    }
#endif

private:
    struct closer {
        void operator()(hf_client *raw) const noexcept { hf_close(raw); }
    };
    std::unique_ptr<hf_client, closer> raw_;
};

/* ---- Mutexes, for std::unique_lock and the like ---- */

namespace detail
{

/* One way to lock a name, and the holds that are acquired through it. */
class lockable
{
public:
    lockable(client &store, std::string name, const lock_options &options, hf_mode mode)
        : store_(store.get()), name_(std::move(name)), how_(options, mode)
    {
        c_name(name_);
    }
    template <class... Stop> bool lock(int64_t wait_ms, const Stop &...stop)
    {
        hold acquired = detail::acquire(store_, name_, wait_ms, how_, stop...);
        if (!acquired)
            return false;
        const std::lock_guard<std::mutex> guard(mutex_);
        entries_.push_back({ std::this_thread::get_id(), std::move(acquired) });
        return true;
    }
    hold acquire(int64_t wait_ms, uint32_t permits)
    {
        terms how = how_;
        how.with.permits = permits;
        return detail::acquire(store_, name_, wait_ms, how);
    }
    /* Moves the hold out. The release comes later, since the next owner may write here then. */
    hold take() noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (entries_.empty())
            return hold();
        std::swap(entries_[best()], entries_.back());
        hold taken = std::move(entries_.back().acquired);
        entries_.pop_back();
        return taken;
    }
    std::error_code end() noexcept
    {
        hold taken = take();
        return taken ? taken.release() : make_error_code(errc::invalid);
    }
    /* What the function returns of the hold that take() would return now. */
    template <class Function> auto ask(Function function) const noexcept
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        return entries_.empty() ? (hold().*function)() : (entries_[best()].acquired.*function)();
    }
    const char *name() const noexcept { return name_.c_str(); }

private:
    struct entry {
        std::thread::id thread;
        hold acquired;
    };
    /* unlock() has no argument, so it has to find the hold: one of this thread before those of
     * others, and then one that is lost. After a loss, two threads have a hold of one mutex: the
     * old owner and the next one. The old owner must not release what the next one has. */
    std::size_t best() const noexcept
    {
        std::size_t found = 0;
        int most = -1;
        for (std::size_t i = 0; i < entries_.size(); i++) {
            const bool is_own = entries_[i].thread == std::this_thread::get_id();
            const int points = 2 * is_own + !entries_[i].acquired.held();
            if (points > most) {
                most = points;
                found = i;
            }
        }
        return found;
    }

    hf_client *store_;
    std::string name_;
    terms how_;
    mutable std::mutex mutex_;
    std::vector<entry> entries_;
};

template <class Clock, class Duration>
int64_t wait_until_ms(const std::chrono::time_point<Clock, Duration> &when)
{
    using seconds = std::chrono::duration<double>;
    const seconds left = seconds(when.time_since_epoch()) - Clock::now().time_since_epoch();
    /* The ends of a clock's range do not fit into a difference, nor into another unit. */
    const bool near = left.count() < 1e9 && left.count() > -1e9;
    return near ? wait_ms(when - Clock::now()) : wait_ms(left);
}

}

/* A mutex of a store: Lockable and TimedLockable, for std::lock_guard and std::unique_lock. Threads
 * share an object as they share a std::mutex, and objects of one name exclude each other. Unlike
 * with std::mutex, any thread may unlock. Copies and moves are not possible.
 *
 * A lock can be lost: its lease ends while the store cannot be asked, or an administrator breaks
 * it. Then held() is false and lost() is true, another owner may enter, and unlock() is still due.
 *
 * std::lock and std::scoped_lock of several mutexes compile, but do not fit locks at a store: they
 * try without a pause, and two threads can refuse each other for minutes. Use lock_all.
 *
 * For renewing, upgrading, downgrading and detaching take a hold from client::lock. */
template <hf_mode Mode> class basic_mutex
{
public:
    /* Asks no store. Of the options, `mode` is not used. */
    basic_mutex(client &store, std::string name, const lock_options &options = {})
        : own_(store, std::move(name), options, Mode)
    {
    }
    basic_mutex(const basic_mutex &) = delete;
    basic_mutex &operator=(const basic_mutex &) = delete;

    /* Waits without a limit. A thread that has the lock already waits for ever. */
    void lock() { own_.lock(HF_FOREVER); }
    /* One attempt. Returns: false while another owner has it. A store that does not reply is an
     * error, after the client's request_timeout_ms. */
    [[nodiscard]] bool try_lock() { return own_.lock(0); }
    /* Returns: false if another owner still has it when `wait` is over. */
    template <class Rep, class Period>
    [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return own_.lock(detail::wait_ms(wait));
    }
    /* The same. A change of the clock during the wait has no effect. */
    template <class Clock, class Duration>
    [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
    {
        return own_.lock(detail::wait_until_ms(when));
    }
    /* Releases, as guards do. A failure goes to on_release_failure(). */
    void unlock() noexcept { own_.take().reset(); }
    /* Releases, and returns what hold::release returns; errc::invalid: it was not locked. */
    [[nodiscard]] std::error_code unlock_checked() noexcept { return own_.end(); }

    /* These are for the owner, between lock() and unlock(). They do not ask the store. See hold. */
    bool held() const noexcept { return own_.ask(&hold::held); }
    bool lost() const noexcept { return own_.ask(&hold::lost); }
    uint64_t token() const noexcept { return own_.ask(&hold::token); }
    std::chrono::milliseconds remaining() const noexcept { return own_.ask(&hold::remaining); }
    /* Lives as long as the object. */
    const char *name() const noexcept { return own_.name(); }
#ifdef HOLDFAST_HAS_STOP_TOKEN
    /* Returns: false if it was stopped first. See client::lock with a stop_token. */
    [[nodiscard]] bool lock(const std::stop_token &stop)
    {
        return own_.lock(HF_FOREVER, stop);
    }
#endif

protected:
    detail::lockable own_;
};

/* Newcomers may overtake waiters for a short while, which is fastest. No waiter starves. */
using mutex = basic_mutex<HF_MUTEX>;
/* First come, first served, in order of arrival at the store. */
using fair_mutex = basic_mutex<HF_FAIR>;

/* A read-write lock: SharedTimedLockable, for std::shared_lock and std::unique_lock. The functions
 * of basic_mutex are those of the writer. A reader that asks for the writer's lock waits for
 * itself. */
class shared_mutex : public basic_mutex<HF_WRITE>
{
public:
    shared_mutex(client &store, const std::string &name, const lock_options &options = {})
        : basic_mutex(store, name, options), readers_(store, name, options, HF_READ)
    {
    }
    void lock_shared() { readers_.lock(HF_FOREVER); }
    [[nodiscard]] bool try_lock_shared() { return readers_.lock(0); }
    template <class Rep, class Period>
    [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return readers_.lock(detail::wait_ms(wait));
    }
    template <class Clock, class Duration>
    [[nodiscard]] bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &when)
    {
        return readers_.lock(detail::wait_until_ms(when));
    }
    /* Releases a hold of this thread, or else one of another thread, as each counts the same. */
    void unlock_shared() noexcept { readers_.take().reset(); }
    [[nodiscard]] std::error_code unlock_shared_checked() noexcept { return readers_.end(); }
    bool held_shared() const noexcept { return readers_.ask(&hold::held); }
#ifdef HOLDFAST_HAS_STOP_TOKEN
    [[nodiscard]] bool lock_shared(const std::stop_token &stop)
    {
        return readers_.lock(HF_FOREVER, stop);
    }
#endif

private:
    detail::lockable readers_;
};

/* A semaphore with permits that come back when their owner dies. lock() and its kin take
 * lock_options.permits, 1 by default, so std::unique_lock guards that number of permits. */
class semaphore : public basic_mutex<HF_PERMIT>
{
public:
    /* A semaphore that does not exist is made with `total` permits. One with another number is
     * errc::kind. With 0 it must exist: set_total makes it, too. */
    semaphore(client &store, std::string name, uint32_t total, lock_options options = {})
        : basic_mutex(store, std::move(name), (options.limit = total, options)), store_(store.get())
    {
    }
    /* Takes this number of permits as one hold, which gives them back. */
    [[nodiscard]] hold acquire(uint32_t permits = 1) { return own_.acquire(HF_FOREVER, permits); }
    /* Returns: an empty hold while too few are free. */
    [[nodiscard]] hold try_acquire(uint32_t permits = 1) { return own_.acquire(0, permits); }
    template <class Rep, class Period>
    [[nodiscard]] hold try_acquire_for(const std::chrono::duration<Rep, Period> &wait,
                                       uint32_t permits = 1)
    {
        return own_.acquire(detail::wait_ms(wait), permits);
    }
    /* Makes the semaphore, or changes its total. This object must have been made with a total of 0
     * to be used afterwards. Returns: false if the total is 0, and permits are held. */
    bool set_total(uint32_t total)
    {
        const int code = hf_semaphore_set(store_, name(), total);
        if (code != HF_BUSY)
            detail::check(code);
        return code == HF_OK;
    }

private:
    hf_client *store_;
};

/* ---- Several locks at once ---- */

/* One lock of a set. The clients of a set may differ. */
struct lock_item {
    client &store;
    std::string name;
    hf_mode mode = HF_MUTEX;
};

/* What one call of lock_all was granted. Moves, and is released by its destructor. */
class hold_set
{
public:
    hold_set() noexcept = default;
    hold_set(hf_hold_set *raw, std::shared_ptr<detail::loss_handler> on_lost) noexcept
        : raw_(raw, closer{ std::move(on_lost) })
    {
    }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    hf_hold_set *get() const noexcept { return raw_.get(); }
    /* True only while all locks of the set are held. */
    bool held() const noexcept { return hf_all_held(get()); }
    /* The smallest of its locks. */
    std::chrono::milliseconds remaining() const noexcept
    {
        return std::chrono::milliseconds(hf_all_remaining_ms(get()));
    }
    /* The fencing token of an item, by its index in the call. */
    uint64_t token(std::size_t index) const noexcept { return hf_token(hf_all_hold(get(), index)); }
    /* Releases all, the last one first. Returns: as hold::release, of the first that failed. */
    [[nodiscard]] std::error_code release() noexcept
    {
        const int code = hf_unlock_all(raw_.release());
        raw_.get_deleter().on_lost.reset();
        return { code, category() };
    }
    /* The same; a failure goes to on_release_failure(), with the name of the first item. */
    void reset() noexcept { raw_.reset(); }

private:
    struct closer {
        void operator()(hf_hold_set *raw) const noexcept
        {
            const detail::copy_of_name name(hf_all_hold(raw, 0));
            name.report({ hf_unlock_all(raw), category() });
        }
        std::shared_ptr<detail::loss_handler> on_lost;
    };
    std::unique_ptr<hf_hold_set, closer> raw_;
};

/* Acquires all locks, in an order that is the same in every program: no two calls wait for each
 * other in a circle. `options` are for all of them, but for `mode`; on_lost runs for the first that
 * is lost. With errc::lost, one was lost while others were being acquired.
 * Returns: a set that is not empty, unless `wait` was over before all were acquired. */
template <class Rep, class Period>
[[nodiscard]] hold_set try_lock_all_for(const std::chrono::duration<Rep, Period> &wait,
                                        const std::vector<lock_item> &items,
                                        const lock_options &options = {})
{
    const detail::terms how(options, HF_MUTEX);
    std::vector<hf_lock_options> own(items.size(), how.with);
    std::vector<hf_lock_item> raw_items;
    for (std::size_t i = 0; i < items.size(); i++) {
        own[i].mode = items[i].mode;
        own[i].on_lost = nullptr;
        raw_items.push_back({ items[i].store.get(), detail::c_name(items[i].name), &own[i] });
    }
    hf_hold_set *raw = nullptr;
    const int code =
        hf_lock_all(raw_items.data(), raw_items.size(), detail::wait_ms(wait), &how.with, &raw);
    if (code != HF_BUSY)
        detail::check(code);
    return hold_set(raw, how.on_lost);
}

/* Without a limit: const auto both = holdfast::lock_all({ { store, "a" }, { store, "b" } }); */
[[nodiscard]] inline hold_set lock_all(const std::vector<lock_item> &items,
                                       const lock_options &options = {})
{
    return try_lock_all_for(forever, items, options);
}

/* ---- Elections and rates ---- */

/* Its token is the term; its release and its destructor resign. */
using leadership = hold;

/* Of all candidates for a name, one leads. Each campaign is a candidate of its own. */
class election
{
public:
    election(client &store, std::string name) : store_(store.get()), name_(std::move(name)) {}
    /* Waits to lead. Never returns an empty leadership. */
    [[nodiscard]] leadership campaign(const lock_options &how = {})
    {
        return try_campaign_for(forever, how);
    }
    /* Returns: an empty leadership if another candidate still leads when `wait` is over. */
    template <class Rep, class Period>
    [[nodiscard]] leadership try_campaign_for(const std::chrono::duration<Rep, Period> &wait,
                                              const lock_options &how = {})
    {
        return detail::acquire(store_, name_, detail::wait_ms(wait), { how, HF_LEADER });
    }
    /* Asks the store which candidate leads; `leads` is false if none does. */
    hf_leader leader() const
    {
        hf_leader now = {};
        now.size = sizeof(now);
        detail::check(hf_election_leader(store_, detail::c_name(name_), &now));
        return now;
    }
    /* Runs `changed`, which must not throw, on a thread of its own for the present leader, and then
     * for each change. See hf_election_watch. The last copy of the pointer ends the watch. */
    [[nodiscard]] std::shared_ptr<hf_watch>
    watch(std::function<void(const hf_leader &)> changed,
          std::chrono::milliseconds every = std::chrono::seconds(1)) const
    {
        const auto own = std::make_shared<detail::handler<hf_leader>>(std::move(changed));
        hf_watch *raw = nullptr;
        detail::check(hf_election_watch(store_, detail::c_name(name_), int64_t{ every.count() },
                                        own->run, own.get(), &raw));
        return { raw, [own](hf_watch *watch) { hf_watch_end(watch); } };
    }

private:
    hf_client *store_;
    std::string name_;
};

/* `permits` in each period, for all clients together; see hf_rate_take. `burst` of them may go at
 * once; 0: all. Give the same rate wherever the name is used. */
class rate_limiter
{
public:
    rate_limiter(client &store, std::string name, uint32_t permits,
                 std::chrono::milliseconds period, uint32_t burst = 0)
        : rate_{ sizeof(hf_rate), permits, int64_t{ period.count() }, burst, nullptr },
          store_(store.get()), name_(std::move(name))
    {
    }
    /* Waits until the permits are there, in the order of arrival. */
    void take(uint32_t permits = 1) { (void)try_take_for(forever, permits); }
    [[nodiscard]] bool try_take(uint32_t permits = 1,
                                std::chrono::milliseconds *ret_retry = nullptr)
    {
        return try_take_for(std::chrono::milliseconds(0), permits, ret_retry);
    }
    /* Returns: false if the permits will not be there within `wait`. Then nothing was taken, and
     * *ret_retry is the time after which they could have been had. */
    template <class Rep, class Period>
    [[nodiscard]] bool try_take_for(const std::chrono::duration<Rep, Period> &wait,
                                    uint32_t permits = 1,
                                    std::chrono::milliseconds *ret_retry = nullptr)
    {
        int64_t retry_ms = 0;
        const int code = hf_rate_take(store_, detail::c_name(name_), &rate_, permits,
                                      detail::wait_ms(wait), &retry_ms);
        if (ret_retry)
            *ret_retry = std::chrono::milliseconds(retry_ms);
        if (code != HF_BUSY)
            detail::check(code);
        return code == HF_OK;
    }

private:
    hf_rate rate_;
    hf_client *store_;
    std::string name_;
};

}

#endif
