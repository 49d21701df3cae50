#include "tools/doctor/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace verbena::doctor {
namespace {

std::string_view mark_of(Verdict verdict, bool utf8) {
  switch (verdict) {
    case Verdict::ok:
      return utf8 ? "✓" : "ok";
    case Verdict::warning:
      return utf8 ? "!" : "! ";
    case Verdict::failure:
      return utf8 ? "✗" : "X ";
  }
  return "?";
}

std::string_view word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warn";
    case Verdict::failure:
      return "fail";
  }
  return "unknown";
}

std::string place_of(const Mend& mend) {
  std::string place = mend.where == "here" ? "" : fmt::format(" on {}", mend.where);
  if (mend.as_root) place += " as root";
  return place;
}

std::string counted(int number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

}  // namespace

Tally tally(const Findings& findings) {
  Tally sum;
  for (const Finding& f : findings) {
    sum.passed += f.verdict == Verdict::ok;
    sum.warnings += f.verdict == Verdict::warning;
    sum.failures += f.verdict == Verdict::failure;
  }
  return sum;
}

std::string as_text(const Finding& finding, bool utf8) {
  const std::string below(utf8 ? 15 : 16, ' ');  // as wide as what stands before `seen`
  std::string text =
      fmt::format("{} {:<12} {}\n", mark_of(finding.verdict, utf8), finding.id, finding.seen);
  if (!finding.why.empty()) text += fmt::format("{}{}\n", below, finding.why);
  for (const Mend& mend : finding.mends) {
    text += fmt::format("{}mend it{}: {}\n", below, place_of(mend), mend.command);
  }
  return text;
}

std::string summary(const Tally& t) {
  return fmt::format("{}, {}, {}\n", counted(t.failures, "failure", "failures"),
                     counted(t.warnings, "warning", "warnings"),
                     counted(t.passed, "check passed", "checks passed"));
}

std::string as_json(const Findings& findings, const std::string& host) {
  const Tally sum = tally(findings);
  auto list = nlohmann::json::array();
  for (const Finding& f : findings) {
    auto mends = nlohmann::json::array();
    for (const Mend& mend : f.mends) {
      mends.push_back({{"command", mend.command}, {"root", mend.as_root}, {"where", mend.where}});
    }
    list.push_back({{"id", f.id},
                    {"verdict", word_of(f.verdict)},
                    {"seen", f.seen},
                    {"why", f.why},
                    {"mend", std::move(mends)}});
  }
  const nlohmann::json all{{"version", 1},
                           {"verbena", VERBENA_VERSION},
                           {"host", host.empty() ? nlohmann::json{} : nlohmann::json{host}},
                           {"failures", sum.failures},
                           {"warnings", sum.warnings},
                           {"findings", std::move(list)}};
  // Names of programs and files may be no UTF-8.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace verbena::doctor
