#include "tools/doctor/firewall_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/doctor/child.h"
#include "tools/doctor/text.h"
#include "tools/verbena/commands.h"

namespace verbena::doctor {
namespace {

constexpr auto kRulesPatience = std::chrono::seconds{10};

/// The words of a rule of iptables.
struct IptablesRule {
  std::vector<std::string> words;

  [[nodiscard]] std::string after(std::string_view option) const {
    const auto found = std::ranges::find(words, option);
    return found != words.end() && found + 1 != words.end() ? *(found + 1) : "";
  }
  /// A new packet to UDP port 4791 of another host's matches for sure.
  [[nodiscard]] bool takes_ours() const {
    const std::string protocol = after("-p"), port = after("--dport");
    const bool ours = (protocol.empty() || protocol == "udp" || protocol == "all") &&
                      (port.empty() || port == "4791");
    return ours && std::ranges::none_of(words, [](const std::string& word) {
             return word == "-i" || word == "-o" || word == "-s" || word == "-d" || word == "!" ||
                    word == "--sport" || word == "--state" || word == "--ctstate" ||
                    word == "--dports" || word == "--mac-source" || word == "--limit";
           });
  }
};

IptablesRule rule_in(const std::string& line) {
  IptablesRule rule;
  std::istringstream words{line};
  for (std::string word; words >> word;) rule.words.push_back(word);
  return rule;
}

/// Asking the older iptables makes its table, so it is asked only if there is one.
void look_at_iptables(const std::string& tables, const std::string& program,
                      std::vector<Obstacle>& found) {
  const auto names = read_text("/proc/net/" + tables);
  if (!names || names->find("filter") == std::string::npos) return;
  for (const std::string& name : {program + "-legacy", program}) {
    const Outcome outcome = run_program({name, "-S"}, kRulesPatience);
    if (outcome.status != 0) continue;
    for (Obstacle& o : obstacles_in_iptables(outcome.output, name)) found.push_back(std::move(o));
    return;
  }
}

}  // namespace

std::vector<Obstacle> obstacles_in_iptables(std::string_view rules, const std::string& program) {
  std::vector<Obstacle> found;
  for (const std::string chain : {"INPUT", "OUTPUT"}) {
    std::string policy, end;
    std::istringstream lines{std::string{rules}};
    for (std::string line; std::getline(lines, line) && end.empty();) {
      const IptablesRule rule = rule_in(line);
      if (rule.after("-P") == chain && rule.words.size() > 2) policy = rule.words[2];
      if (rule.after("-A") != chain) continue;
      const std::string target = rule.after("-j");
      // A rule with a condition counts only if it lets something through to our port.
      const bool admits = target == "ACCEPT" && rule.after("--dport") == "4791";
      if (admits ||
          (rule.takes_ours() && (target == "ACCEPT" || target == "DROP" || target == "REJECT"))) {
        end = target;
      }
    }
    const bool by_policy = end.empty() && policy == "DROP";
    if (!by_policy && end != "DROP" && end != "REJECT") continue;
    found.push_back(
        {fmt::format("{} of {} chain {}", by_policy ? "the policy" : "a rule", program, chain),
         {fmt::format("{} -I {} -p udp --dport 4791 -j ACCEPT", program, chain), true}});
  }
  return found;
}

Finding check_firewall() {
  std::vector<Obstacle> found;
  look_at_iptables("ip_tables_names", "iptables", found);
  look_at_iptables("ip6_tables_names", "ip6tables", found);
  const Outcome nft = run_program({"nft", "-j", "list", "ruleset"}, kRulesPatience);
  const auto ruleset = nlohmann::json::parse(nft.output, nullptr, false);
  const bool read = nft.status == 0 && ruleset.is_object();
  try {
    if (read) std::ranges::move(obstacles_in_nft(ruleset), std::back_inserter(found));
  } catch (const nlohmann::json::exception& error) {  // of a newer nft
    return fine("firewall", fmt::format("nft's rules have an unknown form ({}); `verbena doctor "
                                        "HOST` tries the way",
                                        error.what()));
  }
  if (found.empty()) {
    if (read) return fine("firewall", "its rules let UDP port 4791 through");
    return fine("firewall",
                nft.status == tool::kExitNotFound
                    ? "there is no nft to read its rules; `verbena doctor HOST` tries it"
                    : "root alone can read its rules; `verbena doctor HOST` tries it");
  }
  std::vector<std::string> words;
  std::vector<Mend> mends;
  for (Obstacle& obstacle : found) {
    words.push_back(std::move(obstacle.what));
    mends.push_back(std::move(obstacle.mend));
  }
  return failure("firewall", "UDP port 4791 is dropped by " + listed(words),
                 "Other hosts don't reach this one, or this one doesn't reach them.",
                 std::move(mends));
}

}  // namespace verbena::doctor
