#include "tests/support/cuda/calls.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/cuda/contexts.h"
#include "tests/support/cuda/control.h"
#include "tests/support/cuda/memory.h"

namespace stand_in {
namespace {

enum class Act { fail, flip, forget };

struct Fault {
  std::string function;
  unsigned long long at = 0;  // 0: each call
  Act act = Act::fail;
  CUresult error = CUDA_SUCCESS;
  unsigned long long seen = 0;
};

/// Never destroyed: the streams' threads outlive main().
struct Calls {
  std::mutex lock;
  std::map<std::string, unsigned long long> counts;
  std::vector<Fault> plan;
  std::string counts_file;
  std::minstd_rand chance{1};
  unsigned delay = 20;
  int devices = 1;
  bool dmabufs_can_be_mapped = false;
  bool environment_read = false;
  std::atomic<pid_t> process{0};  // that called cuInit()
};

Calls& calls() {
  static Calls& only = *new Calls;
  return only;
}

thread_local bool flip = false;

[[noreturn]] void bad_setting(std::string_view name, std::string_view value) {
  std::fprintf(stderr, "libcuda.so.1 of the tests: %.*s=%.*s isn't as control.h says\n",
               static_cast<int>(name.size()), name.data(), static_cast<int>(value.size()),
               value.data());
  std::abort();
}

unsigned long long number(const char* name, std::string_view text) {
  unsigned long long value = 0;
  if (text.empty() || text.size() > 9) bad_setting(name, text);
  for (const char c : text) {
    if (c < '0' || c > '9') bad_setting(name, text);
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value;
}

Fault fault_of(std::string_view entry) {
  constexpr const char* kName = "TEST_CUDA_FAIL";
  const auto first = entry.find(':');
  const auto last = entry.rfind(':');
  if (first == last) bad_setting(kName, entry);
  const std::string_view at = entry.substr(first + 1, last - first - 1);
  const std::string_view what = entry.substr(last + 1);
  Fault fault;
  fault.function = entry.substr(0, first);
  fault.at = at == "*" ? 0 : number(kName, at);
  if (what == "flip") {
    fault.act = Act::flip;
  } else if (what == "forget") {
    fault.act = Act::forget;
  } else {
    fault.error = static_cast<CUresult>(number(kName, what));
  }
  return fault;
}

std::vector<Fault> plan_of(std::string_view text) {
  std::vector<Fault> plan;
  while (!text.empty()) {
    const auto comma = text.find(',');
    plan.push_back(fault_of(text.substr(0, comma)));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return plan;
}

/// With the lock.
void read_environment(Calls& c) {
  if (std::exchange(c.environment_read, true)) return;
  const auto with = [](const char* name, auto&& use) {
    if (const char* value = std::getenv(name)) use(name, value);
  };
  with("TEST_CUDA_DEVICES", [&](const char* name, const char* value) {
    c.devices = static_cast<int>(number(name, value));
  });
  with("TEST_CUDA_DELAY", [&](const char* name, const char* value) {
    c.delay = static_cast<unsigned>(number(name, value));
  });
  with("TEST_CUDA_SEED", [&](const char* name, const char* value) {
    c.chance.seed(static_cast<unsigned>(number(name, value)));
  });
  with("TEST_CUDA_FAIL", [&](const char*, const char* value) { c.plan = plan_of(value); });
  with("TEST_CUDA_COUNTS", [&](const char*, const char* value) { c.counts_file = value; });
  with("TEST_CUDA_DMABUF", [&](const char* name, const char* value) {
    if (std::strcmp(value, "map") != 0) bad_setting(name, value);
    c.dmabufs_can_be_mapped = true;
  });
}

void write_counts(const Calls& c) {
  std::string name = c.counts_file;
  if (const auto at = name.find("%p"); at != std::string::npos)
    name.replace(at, 2, std::to_string(getpid()));
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "libcuda.so.1 of the tests: can't write %s\n", name.c_str());
    std::abort();
  }
  const char* before = "{";
  for (const auto& [function, count] : c.counts) {
    std::fprintf(file, "%s\n  \"%s\": %llu", before, function.c_str(), count);
    before = ",";
  }
  std::fprintf(file, "%s}\n", c.counts.empty() ? "{" : "\n");
  std::fclose(file);
}

__attribute__((destructor)) void at_exit() {
  Calls& c = calls();
  if (c.process != getpid()) return;  // a forked child has no driver
  check_registered();
  if (const std::lock_guard hold{c.lock}; !c.counts_file.empty()) write_counts(c);
}

}  // namespace

void die(const char* what, unsigned long long about) {
  std::fprintf(stderr, "libcuda.so.1 of the tests: %s (0x%llx)\n", what, about);
  std::abort();
}

CUresult enter(const char* function, Needs needs) {
  Calls& c = calls();
  bool forget = false;
  CUresult error = CUDA_SUCCESS;
  flip = false;
  {
    const std::lock_guard hold{c.lock};
    read_environment(c);
    ++c.counts[function];
    for (Fault& fault : c.plan) {
      if (fault.function != function) continue;
      ++fault.seen;
      if (fault.at != 0 && fault.at != fault.seen) continue;
      if (fault.act == Act::fail) error = fault.error;
      if (fault.act == Act::flip) flip = true;
      if (fault.act == Act::forget) forget = true;
    }
  }
  if (needs == Needs::initialised && c.process != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  if (forget) forget_all_contexts();
  return error;
}

bool take_flip() { return std::exchange(flip, false); }

CUresult initialise() {
  Calls& c = calls();
  if (devices() == 0) return CUDA_ERROR_NO_DEVICE;
  pid_t nobody = 0;
  // A child that was forked from a process with a driver gets none, as in reality.
  if (!c.process.compare_exchange_strong(nobody, getpid()) && nobody != getpid())
    return CUDA_ERROR_NOT_INITIALIZED;
  return CUDA_SUCCESS;
}

int devices() {
  const std::lock_guard hold{calls().lock};
  return calls().devices;
}

unsigned next_delay_us() {
  Calls& c = calls();
  const std::lock_guard hold{c.lock};
  return std::uniform_int_distribution<unsigned>{0, c.delay}(c.chance);
}

bool dmabufs_can_be_mapped() {
  const std::lock_guard hold{calls().lock};
  return calls().dmabufs_can_be_mapped;
}

}  // namespace stand_in

void stand_in_fail(const char* plan) {
  auto& c = stand_in::calls();
  const std::lock_guard hold{c.lock};
  stand_in::read_environment(c);
  c.plan = stand_in::plan_of(plan);
}

void stand_in_delay(unsigned microseconds) {
  auto& c = stand_in::calls();
  const std::lock_guard hold{c.lock};
  stand_in::read_environment(c);
  c.delay = microseconds;
}

void stand_in_devices(int count) {
  auto& c = stand_in::calls();
  const std::lock_guard hold{c.lock};
  stand_in::read_environment(c);
  c.devices = count;
}

unsigned long long stand_in_calls(const char* function) {
  auto& c = stand_in::calls();
  const std::lock_guard hold{c.lock};
  const auto found = c.counts.find(function);
  return found == c.counts.end() ? 0 : found->second;
}
