#include "tools/bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <system_error>

#include "tools/bench/machine.h"
#include "tools/bench/progress.h"

namespace verbena::bench {
namespace {

class Session {
 public:
  Session(const Plan& plan, const Surroundings& where)
      : plan_{plan}, where_{where}, progress_{plan.rounds, plan.specs.size()} {
    results_.plan = plan.name;
    results_.seconds = plan.seconds;
    results_.host = where.host;
    results_.machine = describe_machine();
    for (const Spec& spec : plan.specs) results_.measured.push_back({spec});
  }

  /// False: interrupted, or nobody answers any more.
  [[nodiscard]] bool run_all_once(std::size_t round) {
    for (std::size_t i = 0; i < plan_.specs.size(); ++i) {
      if (is_stopped()) return false;
      if (missing_.contains(i)) continue;
      progress_.show(round, i, title_of(plan_.specs[i]));
      run_one(i);
      if (!results_.broken_off.empty()) return false;
    }
    results_.rounds = static_cast<unsigned>(round + 1);
    if (!is_stopped()) progress_.end_round(round);
    return !is_stopped();
  }

  [[nodiscard]] Results take() {
    std::string devices;
    for (const auto& name : devices_) devices += (devices.empty() ? "" : ", ") + name;
    results_.machine["devices"] = devices;
    results_.machine["load_after"] = load_average();
    std::erase_if(results_.measured, [](const Measured& one) {
      return std::ranges::none_of(one.rounds, [](const auto& r) { return r.has_value(); });
    });
    return std::move(results_);
  }

 private:
  [[nodiscard]] bool is_stopped() const { return where_.stop != nullptr && *where_.stop; }

  void run_one(std::size_t i) {
    const Spec& spec = plan_.specs[i];
    auto& rounds = results_.measured[i].rounds;
    try {
      Round round = run_round(spec, where_);
      devices_.insert(round.devices.begin(), round.devices.end());
      rounds.emplace_back(std::move(round.sample));
    } catch (const NotHere& why) {
      missing_.insert(i);
      results_.skipped.push_back({spec, why.what()});
    } catch (const NobodyThere& why) {
      results_.broken_off = why.what();
    } catch (const std::exception& why) {  // a round that failed, or a program that can't start
      if (is_stopped()) return;            // Ctrl-C ended it, too
      rounds.emplace_back(std::nullopt);
      progress_.say(fmt::format("verbena bench: {} {}, {}: {}", spec.test, size_text(spec.size),
                                title_of(spec), why.what()));
      results_.failed.push_back({spec, why.what()});
    }
  }

  const Plan& plan_;
  const Surroundings& where_;
  Progress progress_;
  Results results_;
  std::set<std::size_t> missing_;  // not measured in further rounds
  std::set<std::string> devices_;
};

}  // namespace

Results measure(const Plan& plan, const Surroundings& where) {
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return plan.time_limit > 0 && took.count() > plan.time_limit;
  };
  Session session{plan, where};
  for (std::size_t round = 0; round < plan.rounds; ++round) {
    if (round > 0 && is_late()) break;
    if (!session.run_all_once(round)) break;
  }
  return session.take();
}

}  // namespace verbena::bench
