#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/doctor/firewall_check.h"
#include "tools/doctor/sockets.h"

namespace verbena::doctor {
namespace {

using nlohmann::json;

/// Does a condition hold for a new packet to UDP port 4791?
enum class Match { no, unknown, yes };
/// What becomes of it in a chain.
enum class End { goes_on, accepted, dropped };

constexpr int kMostJumps = 16;  // as the kernel allows

Match both(Match a, Match b) { return std::min(a, b); }

Match yes_if(bool condition) { return condition ? Match::yes : Match::no; }

/// A value, a range, or a set of these.
Match contains(const json& right, const json& value) {
  if (right.is_object() && right.contains("set")) return contains(right.at("set"), value);
  if (right.is_object() && right.contains("elem")) {  // with a counter or a comment
    return contains(right.at("elem").value("val", json{}), value);
  }
  if (right.is_object() && right.contains("range")) {
    const json& ends = right.at("range");
    if (!ends.is_array() || ends.size() != 2 || !value.is_number()) return Match::unknown;
    return yes_if(ends[0] <= value && value <= ends[1]);
  }
  if (right.is_array()) {
    Match best = Match::no;
    for (const json& element : right) best = std::max(best, contains(element, value));
    return best;
  }
  if (right.is_string() && right.get<std::string>().starts_with('@')) return Match::unknown;
  return yes_if(right == value);
}

Match match_payload(const json& payload, const json& right) {
  const std::string protocol = payload.value("protocol", "");
  const std::string field = payload.value("field", "");
  if ((protocol == "udp" || protocol == "th") && field == "dport")
    return contains(right, kRocePort);
  if (protocol == "tcp" || protocol.starts_with("icmp")) return Match::no;
  if ((protocol == "ip" && field == "protocol") || (protocol == "ip6" && field == "nexthdr")) {
    return std::max(contains(right, "udp"), contains(right, 17));
  }
  return Match::unknown;
}

Match match_left(const json& left, const json& right) {
  if (!left.is_object()) return Match::unknown;
  if (left.contains("payload")) return match_payload(left.at("payload"), right);
  if (left.contains("meta")) {
    const std::string key = left.at("meta").value("key", "");
    if (key == "l4proto") return std::max(contains(right, "udp"), contains(right, 17));
    const bool interface = key == "iif" || key == "iifname" || key == "oif" || key == "oifname";
    // Packets of other hosts.
    return interface && right == "lo" ? Match::no : Match::unknown;
  }
  // The packet begins a conversation, without any DNAT.
  if (left.contains("ct")) {
    return left.at("ct").value("key", "") == "state" ? contains(right, "new") : Match::no;
  }
  return Match::unknown;
}

Match match_statement(const json& match) {
  const Match found = match_left(match.at("left"), match.at("right"));
  if (match.value("op", "==") != "!=" || found == Match::unknown) return found;
  return found == Match::yes ? Match::no : Match::yes;
}

/// A match of iptables, of which nft shows the name alone. Those of states admit what was asked
/// for.
Match match_extension(const json& extension) {
  const std::string name = extension.value("name", "");
  return name == "conntrack" || name == "state" ? Match::no : Match::unknown;
}

class Ruleset {
 public:
  explicit Ruleset(const json& all) : all_{all} {}

  [[nodiscard]] End end_in(const json& chain, int depth = 0) const {
    for (const json& entry : all_) {
      if (!entry.contains("rule")) continue;
      const json& rule = entry.at("rule");
      const bool here = rule.at("family") == chain.at("family") &&
                        rule.at("table") == chain.at("table") &&
                        rule.at("chain") == chain.at("name");
      if (!here) continue;
      if (const End end = end_of(rule, chain, depth); end != End::goes_on) return end;
    }
    return End::goes_on;
  }

 private:
  [[nodiscard]] End end_of(const json& rule, const json& chain, int depth) const {
    Match match = Match::yes;
    for (const json& statement : rule.value("expr", json::array())) {
      if (statement.contains("match")) {
        match = both(match, match_statement(statement.at("match")));
      } else if (statement.contains("xt")) {
        match = both(match, match_extension(statement.at("xt")));
      } else if (statement.contains("limit")) {
        match = both(match, Match::unknown);
      }
      if (match == Match::no) return End::goes_on;
      // Some packets are let through: the administrator has thought of it.
      if (statement.contains("accept")) return End::accepted;
      if (match == Match::unknown) continue;
      if (statement.contains("drop") || statement.contains("reject")) return End::dropped;
      for (const char* const kind : {"jump", "goto"}) {
        if (!statement.contains(kind) || depth == kMostJumps) continue;
        return end_in(chain_named(chain, statement.at(kind).at("target")), depth + 1);
      }
    }
    return End::goes_on;
  }

  [[nodiscard]] static json chain_named(const json& beside, const json& name) {
    return {{"family", beside.at("family")}, {"table", beside.at("table")}, {"name", name}};
  }

  const json& all_;
};

}  // namespace

std::vector<Obstacle> obstacles_in_nft(const json& ruleset) {
  std::vector<Obstacle> found;
  const json& all = ruleset.at("nftables");
  for (const json& entry : all) {
    if (!entry.contains("chain")) continue;
    const json& chain = entry.at("chain");
    const std::string hook = chain.value("hook", "");
    const bool filters =
        (hook == "input" || hook == "output") && chain.value("type", "") == "filter";
    if (!filters) continue;
    const End end = Ruleset{all}.end_in(chain);
    const bool by_policy = end == End::goes_on && chain.value("policy", "accept") == "drop";
    if (end != End::dropped && !by_policy) continue;
    const std::string name =
        fmt::format("{} {} {}", chain.at("family").get<std::string>(),
                    chain.at("table").get<std::string>(), chain.at("name").get<std::string>());
    found.push_back(
        {fmt::format("{} of nft chain {} ({})", by_policy ? "the policy" : "a rule", name, hook),
         {fmt::format("nft insert rule {} udp dport 4791 accept", name), true}});
  }
  return found;
}

}  // namespace verbena::doctor
