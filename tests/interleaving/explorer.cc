#include "tests/interleaving/explorer.h"

#include <utility>

namespace verbena::interleaving {
namespace {

constexpr std::size_t kStack = 256u << 10;
Explorer* explorer = nullptr;
const std::function<void()>* body_to_run = nullptr;

}  // namespace

bool Access::depends_on(const Access& other) const {
  if (kind == Kind::end || other.kind == Kind::end) return false;
  if (kind == Kind::fence || other.kind == Kind::fence) return kind == other.kind;
  const auto bell = [](const Access& a) { return a.kind == Kind::ring || a.kind == Kind::wait; };
  if (bell(*this) || bell(other)) return bell(*this) && bell(other) && address == other.address;
  return address == other.address && (kind == Kind::store || other.kind == Kind::store);
}

std::string Access::text() const {
  static constexpr std::array kNames{"load", "store", "fence", "ring", "wait", "end"};
  return std::string{kNames[static_cast<std::size_t>(kind)]} + " " +
         std::to_string(reinterpret_cast<std::uintptr_t>(address) % (1u << 20));
}

Explorer& Explorer::current() { return *explorer; }

std::optional<Finding> Explorer::explore(const Program& program) {
  explorer = this;
  choices_.clear();
  finding_.reset();
  executions_ = 0;
  do {
    ++executions_;
    run(program);
  } while (!finding_ && next_execution());
  explorer = nullptr;
  return finding_;
}

void Explorer::run(const Program& program) {
  depth_ = 0;
  asleep_ = 0;
  memory_.emplace(weakness_);
  rings_ = {};
  rung_ = {};
  steps_.clear();
  exploring_ = false;
  program.prepare();
  memory_->settle();
  rings_ = {};
  rung_ = {};
  exploring_ = true;
  for (std::size_t t = 0; t < kThreads; ++t) begin(t, program.threads[t]);
  while (!finding_ && step()) {
  }
  exploring_ = false;
  const bool through = fibers_[0].finished && fibers_[1].finished;
  if (!finding_ && through) program.check();
}

void Explorer::begin(std::size_t thread, const std::function<void()>& body) {
  Fiber& fiber = fibers_[thread];
  fiber.stack.resize(kStack);
  fiber.finished = false;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = nullptr;
  body_to_run = &body;
  void (*const entry)() = [] {
    Explorer& self = current();
    (*body_to_run)();
    self.fibers_[self.running_].finished = true;
    self.stop_before({});
  };
  ::makecontext(&fiber.context, entry, 0);
  running_ = thread;
  ::swapcontext(&scheduler_, &fiber.context);  // up to its first access
}

void Explorer::stop_before(Access access) {
  Fiber& fiber = fibers_[running_];
  fiber.next = access;
  ::swapcontext(&fiber.context, &scheduler_);
}

bool Explorer::can_go_on(std::size_t thread) const {
  const Fiber& fiber = fibers_[thread];
  if (fiber.finished) return false;
  return fiber.next.kind != Access::Kind::wait || rung_[thread];
}

bool Explorer::step() {
  const auto thread = choose_thread();
  if (!thread) return false;
  running_ = *thread;
  steps_.push_back(std::to_string(running_) + ": " + fibers_[running_].next.text());
  ::swapcontext(&scheduler_, &fibers_[running_].context);
  return true;
}

std::uint8_t Explorer::asleep_after(const Choice& choice) const {
  std::uint8_t asleep = 0;
  for (std::size_t t = 0; t < kThreads; ++t) {
    const unsigned bit = 1u << t;
    if (t == choice.chosen || ((choice.asleep | choice.tried) & bit) == 0) continue;
    if (fibers_[t].next.depends_on(fibers_[choice.chosen].next)) continue;
    asleep |= static_cast<std::uint8_t>(bit);
  }
  return asleep;
}

std::optional<std::size_t> Explorer::choose_thread() {
  unsigned able = 0;
  for (std::size_t t = 0; t < kThreads; ++t) able |= can_go_on(t) ? 1u << t : 0u;
  if (able == 0) {
    if (!fibers_[0].finished || !fibers_[1].finished) fail("a thread waits for ever");
    return std::nullopt;
  }
  if (depth_ == choices_.size()) {
    const unsigned wanted = able & ~unsigned{asleep_};
    if (wanted == 0) return std::nullopt;
    choices_.push_back({.chosen = (wanted & 1) != 0 ? 0u : 1u, .thread = true, .asleep = asleep_});
  }
  Choice& choice = choices_[depth_++];
  choice.count = able;
  asleep_ = asleep_after(choice);
  return choice.chosen;
}

std::size_t Explorer::choose_value(std::size_t count) {
  if (count <= 1) return 0;
  if (depth_ == choices_.size()) choices_.push_back({.count = count});
  return choices_[depth_++].chosen;
}

bool Explorer::next_execution() {
  while (!choices_.empty()) {
    Choice& last = choices_.back();
    if (last.thread) {
      last.tried |= static_cast<std::uint8_t>(1u << last.chosen);
      const std::size_t other = 1 - last.chosen;
      const unsigned bit = 1u << other;
      if ((last.count & bit) != 0 && ((last.asleep | last.tried) & bit) == 0) {
        last.chosen = other;
        return true;
      }
    } else if (++last.chosen < last.count) {
      return true;
    }
    choices_.pop_back();
  }
  return false;
}

void Explorer::fail(const std::string& what) {
  if (!finding_) finding_ = Finding{what, steps_};
}

// ---- what threads do

std::uint64_t Explorer::load(const void* address, std::memory_order order) {
  if (!exploring_) return memory_->load(running_, address, order, 0);
  stop_before({Access::Kind::load, address});
  return memory_->load(running_, address, order, choose_value(memory_->choices(running_, address)));
}

void Explorer::store(const void* address, std::uint64_t bits, std::memory_order order) {
  if (exploring_) stop_before({Access::Kind::store, address});
  memory_->store(running_, address, bits, order);
}

void Explorer::fence() {
  if (exploring_) stop_before({Access::Kind::fence, nullptr});
  memory_->fence(running_);
}

void Explorer::read(const void* place) {
  if (!memory_->read(running_, place) && exploring_) fail("bytes are read that may not be there");
}

void Explorer::write(const void* place) {
  if (!memory_->write(running_, place) && exploring_) fail("bytes are overwritten that are in use");
}

void Explorer::ring(std::size_t bell) {
  if (exploring_) stop_before({Access::Kind::ring, &rung_[bell]});
  ++rings_[bell];
  rung_[bell] = true;
}

void Explorer::wait() {
  stop_before({Access::Kind::wait, &rung_[running_]});
  rung_[running_] = false;
}

}  // namespace verbena::interleaving
