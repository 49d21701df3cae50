#pragma once

// Connection managers on hosts of a network that loses, duplicates and delays their messages; a
// virtual clock; and things that happen at times of their own. Everything follows from the seed.

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "base/entropy.h"
#include "base/time.h"
#include "cm/connection_manager.h"

namespace verbena::sim {

struct CmLink {
  Duration delay = std::chrono::microseconds{50};
  Duration jitter{};  // reorders
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
};

class CmWorld;

class CmHost final : Entropy {
 public:
  CmHost(CmWorld& world, std::uint32_t slot, IpAddress address);

  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] cm::ConnectionManager& cm() { return cm_; }

  /// Hears of everything that the connection manager tells.
  std::function<void(const cm::Event&)> owner;
  /// It sends and receives nothing, and its program does nothing.
  bool dead = false;

 private:
  [[nodiscard]] std::uint32_t next() override;

  CmWorld& world_;
  IpAddress address_;
  cm::ConnectionManager cm_;
};

class CmWorld {
 public:
  explicit CmWorld(std::uint64_t seed) : random_{seed} {}

  CmHost& add_host();
  CmLink link;
  /// Sees each message on its way: "sent", "lost", "came".
  std::function<void(const char* what, const cm::OutgoingMad& mad)> trace;

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  /// 0 … n-1.
  [[nodiscard]] std::uint32_t pick(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>{0, n - 1}(random_);
  }
  [[nodiscard]] Duration pick(Duration longest) {
    return Duration{
        static_cast<Duration::rep>(random_() % (static_cast<std::uint64_t>(longest.count()) + 1))};
  }

  void after(Duration time, std::function<void()> what) { at(now_ + time, std::move(what)); }
  void run_until(Instant end);

 private:
  struct Happening {
    Instant when;
    std::uint64_t order;
    std::function<void()> what;
    friend bool operator>(const Happening& a, const Happening& b) {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };
  void at(Instant when, std::function<void()> what);
  void transmit(const cm::OutgoingMad& mad);
  void deliver(const cm::OutgoingMad& mad);
  /// The network tells the sender that nobody was there.
  void bounce(const cm::OutgoingMad& mad);
  /// Messages leave, owners hear; until there is nothing left to say.
  void settle();
  [[nodiscard]] Instant next() const;

  std::mt19937_64 random_;
  Instant now_{std::chrono::hours{1}};
  std::uint64_t order_ = 0;
  std::uint64_t lost_ = 0;
  std::vector<std::unique_ptr<CmHost>> hosts_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
};

}  // namespace verbena::sim
