#pragma once

// When the NIC thread works, spins, sleeps and steps aside. Pure: the thread (nic_thread.h) carries
// out one step, tells what came of it, and gets the next step. The reasons for the rules are in
// docs/decisions/005-progress.md.
//
//   ON DUTY
//
//     start() ---> + <---------------------------------------- work
//                  |                                            ^ |
//                  | data came soon last time                   | | outrun kOutrunLimit times,
//                  +----------------> ask_for_core              | | poller faster each time
//                  |                   |        | a core        | |
//                  |              none |        v is spare      | |
//                  |                   |      look ------------>+ |
//                  |                   |     (spins)  found     | |
//                  v                   v        |               | |
//                sleep <---------------+<-------+               | |
//                  |                         kLinger is over,   | |
//                  |                         deadline, or a     | |
//                  |                         program polls      | |
//                  +------------------------------------------->+ |
//                    data, control, wake-up, deadline             |
//                                                                 |
//   ASIDE: doesn't watch the data descriptors                     |
//                                                                 v
//     nap <------------------------------------------------- step_aside (first nap)
//      |  ^
//      |  +-- program still polls: nap twice as long
//      |  +-- silent for less than a quarter of the nap: wait for the rest of that quarter
//      |  +-- control: work, then decide again
//      |
//      +----> come_back ---> ON DUTY, and work at once
//          silent for longer, or recalled
//
//   RELIEVED: a thread of the program sleeps in ibv_get_cq_event and watches the bells of rings
//   between processes (event_wait.h). While one does, or did within kReliefGrace, stand_by takes
//   the place of sleep and look.

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbena::host {

class ProgressPolicy {
 public:
  static constexpr Duration kAsideMin = std::chrono::microseconds{50};
  static constexpr Duration kAsideMax = std::chrono::microseconds{800};
  /// A program that polled this recently is still polling.
  static constexpr Duration kPolling = std::chrono::microseconds{20};
  /// A program that polled for long may have lost its core: silence of this share of the nap
  /// doesn't end its polling.
  static constexpr int kGraceShare = 4;
  static constexpr int kOutrunLimit = 8;
  /// Data that comes this soon is worth spinning for.
  static constexpr Duration kLinger = std::chrono::microseconds{50};
  /// A thread that waited for events this recently is soon back.
  static constexpr Duration kReliefGrace = std::chrono::milliseconds{1};
  /// While it waits and nothing happens, looks at it become rarer, and end here.
  static constexpr Duration kRarestLook = std::chrono::milliseconds{64};
  /// From then on only in case that the thread has left without a word (by siglongjmp): else it
  /// calls.
  static constexpr Duration kForgotten = std::chrono::seconds{1};

  /// What other threads have said, and the time when the last step ended.
  struct Facts {
    Instant now{};
    Instant last_poll{};        // the last poll that found nothing
    bool poller_waits = false;  // it found nothing since, and will poll again
    bool recalled = false;      // a program goes to sleep; counts only while aside
    bool relieved = false;      // a thread of the program watches the bells
    Instant relief_ended{};     // when one did last
    friend bool operator==(const Facts&, const Facts&) = default;
  };

  /// What ended a look, a sleep or a nap. Nothing: the time was over.
  struct Wakeup {
    bool data = false;
    bool control = false;
    bool other = false;  // another thread wants this one
    [[nodiscard]] bool any() const { return data || control || other; }
  };

  /// What came of one round of work.
  struct Round {
    Instant deadline{};   // the next round's, at the latest
    bool useful = false;  // there was something to receive
    bool woke = false;    // a thread of the program that slept
  };

  struct Step {
    enum class Kind : std::uint8_t {
      work,          // then worked()
      ask_for_core,  // is a core spare, with `others` more threads about to run? then asked()
      look,          // at all descriptors, without waiting; then looked()
      sleep,         // on all descriptors; then woken()
      stand_by,      // on all descriptors but bells; then woken()
      step_aside,    // as nap, the first one
      nap,           // on all descriptors but data; then napped()
      come_back,     // then came_back()
    };
    Kind kind;
    Instant until{};         // nap, step_aside, stand_by: its end; else: the deadline
    bool control = false;    // work: on the control descriptors, too
    std::size_t others = 0;  // ask_for_core
    friend bool operator==(const Step&, const Step&) = default;
  };

  [[nodiscard]] Step start(Instant now);
  [[nodiscard]] Step worked(const Round& round, const Facts& facts);
  [[nodiscard]] Step asked(bool core_is_spare, Instant now);
  [[nodiscard]] Step looked(const Wakeup& wakeup, const Facts& facts);
  [[nodiscard]] Step woken(const Wakeup& wakeup, const Facts& facts);
  [[nodiscard]] Step napped(const Wakeup& wakeup, const Facts& facts);
  [[nodiscard]] Step came_back(const Facts& facts);

 private:
  [[nodiscard]] Step wait_for_more(const Facts& facts);
  [[nodiscard]] Step stand_by(const Facts& facts);
  [[nodiscard]] Step work_after(const Wakeup& wakeup, const Facts& facts);
  [[nodiscard]] Step step_aside(const Facts& facts);
  [[nodiscard]] Step nap_or_come_back(const Facts& facts);

  Round round_;  // the last one on duty
  bool aside_ = false;

  // On duty.
  Instant waiting_since_{};
  Instant linger_until_{};
  bool data_came_soon_ = false;  // last time
  bool woken_by_data_ = false;
  bool poller_waited_ = false;  // when the thread woke up
  int outrun_ = 0;              // times in a row

  // Relieved.
  Instant relief_seen_{};  // its last end, at the last look
  Duration look_{};        // time to the next look

  // Aside.
  Duration nap_{};  // length of a full nap
};

}  // namespace verbena::host
