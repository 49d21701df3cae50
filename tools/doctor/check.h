#pragma once

// What every check of `verbena doctor` gives: findings.

#include <string>
#include <utility>
#include <vector>

namespace verbena::doctor {

enum class Verdict { ok, warning, failure };

/// A command that makes the finding go away.
struct Mend {
  std::string command;
  bool as_root = false;
  std::string where = "here";  // or: HOST, "the gateway", …

  friend bool operator==(const Mend&, const Mend&) = default;
};

struct Finding {
  std::string id;  // of the check; the same in each run, for scripts
  Verdict verdict = Verdict::ok;
  std::string seen;
  std::string why{};          // what it costs; empty: nothing
  std::vector<Mend> mends{};  // all of them, in this order
};

using Findings = std::vector<Finding>;

[[nodiscard]] inline Finding fine(std::string id, std::string seen) {
  return {std::move(id), Verdict::ok, std::move(seen)};
}

[[nodiscard]] inline Finding warning(std::string id, std::string seen, std::string why,
                                     std::vector<Mend> mends) {
  return {std::move(id), Verdict::warning, std::move(seen), std::move(why), std::move(mends)};
}

[[nodiscard]] inline Finding failure(std::string id, std::string seen, std::string why,
                                     std::vector<Mend> mends) {
  return {std::move(id), Verdict::failure, std::move(seen), std::move(why), std::move(mends)};
}

}  // namespace verbena::doctor
