#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tools/doctor/firewall_check.h"

namespace verbena::doctor {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kPort = R"({"match":{"op":"==","left":{"payload":{"protocol":"udp",
  "field":"dport"}},"right":4791}})";
constexpr auto kFromOthers = R"({"match":{"op":"!=","left":{"payload":{"protocol":"ip",
  "field":"saddr"}},"right":{"prefix":{"addr":"10.0.0.0","len":24}}}})";

std::string rule(const std::string& statements, const std::string& chain = "input") {
  return R"({"rule":{"family":"inet","table":"f","chain":")" + chain + R"(","handle":1,"expr":[)" +
         statements + "]}}";
}

/// One table with an input chain of this policy.
std::vector<Obstacle> obstacles(const std::string& policy, const std::vector<std::string>& rules) {
  std::string text = R"({"nftables":[{"metainfo":{"version":"1.0.6"}},
    {"table":{"family":"inet","name":"f","handle":1}},
    {"chain":{"family":"inet","table":"f","name":"other","handle":3}},
    {"chain":{"family":"inet","table":"f","name":"input","handle":2,"type":"filter",
              "hook":"input","prio":0,"policy":")" +
                     policy + "\"}}";
  for (const std::string& r : rules) text += "," + r;
  return obstacles_in_nft(nlohmann::json::parse(text + "]}"));
}

TEST(DoctorFirewall, NoRulesDropNothing) {
  EXPECT_THAT(obstacles_in_nft(nlohmann::json::parse(R"({"nftables":[]})")), IsEmpty());
  EXPECT_THAT(obstacles("accept", {}), IsEmpty());
}

TEST(DoctorFirewall, ARuleDropsThePort) {
  const auto found = obstacles("accept", {rule(std::string{kPort} + R"(,{"drop":null})")});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].mend.command, "nft insert rule inet f input udp dport 4791 accept");
  EXPECT_TRUE(found[0].mend.as_root);
  EXPECT_EQ(found[0].what, "a rule of nft chain inet f input (input)");
}

TEST(DoctorFirewall, ThePolicyDropsWhatNoRuleAccepts) {
  const std::string ssh = R"({"match":{"op":"==","left":{"payload":{"protocol":"tcp",
    "field":"dport"}},"right":22}},{"accept":null})";
  const std::string established = R"({"match":{"op":"in","left":{"ct":{"key":"state"}},
    "right":["established","related"]}},{"accept":null})";
  const std::string loopback = R"({"match":{"op":"==","left":{"meta":{"key":"iifname"}},
    "right":"lo"}},{"accept":null})";
  const auto found = obstacles("drop", {rule(ssh), rule(established), rule(loopback)});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "the policy of nft chain inet f input (input)");
  EXPECT_THAT(obstacles("drop", {rule(ssh), rule(std::string{kPort} + R"(,{"accept":null})")}),
              IsEmpty());
}

TEST(DoctorFirewall, PortsInSetsAndRanges) {
  const auto udp_to = [](const std::string& ports) {
    return rule(R"({"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},
      "right":)" +
                ports + R"(}},{"accept":null})");
  };
  EXPECT_THAT(obstacles("drop", {udp_to(R"({"set":[53,4791]})")}), IsEmpty());
  EXPECT_THAT(obstacles("drop", {udp_to(R"({"range":[4000,5000]})")}), IsEmpty());
  EXPECT_THAT(obstacles("drop", {udp_to(R"({"set":[53,{"range":[4791,4792]}]})")}), IsEmpty());
  EXPECT_THAT(obstacles("drop", {udp_to(R"({"set":[{"elem":{"val":4791,"comment":"x"}}]})")}),
              IsEmpty());
  EXPECT_THAT(obstacles("drop", {udp_to(R"({"set":[53,{"range":[4000,4790]}]})")}), SizeIs(1));
}

TEST(DoctorFirewall, ARuleWithAnAddressIsTheAdministratorsChoice) {
  EXPECT_THAT(
      obstacles("accept", {rule(std::string{kPort} + "," + kFromOthers + R"(,{"drop":null})")}),
      IsEmpty());
  EXPECT_THAT(
      obstacles("drop", {rule(std::string{kPort} + "," + kFromOthers + R"(,{"accept":null})")}),
      IsEmpty());
}

TEST(DoctorFirewall, RulesThatIptablesMakesInNft) {
  const std::string established = R"({"xt":{"type":"match","name":"conntrack"}},{"accept":null})";
  const std::string ports = R"({"xt":{"type":"match","name":"multiport"}},{"accept":null})";
  EXPECT_THAT(obstacles("drop", {rule(established)}), SizeIs(1));
  EXPECT_THAT(obstacles("drop", {rule(established), rule(ports)}), IsEmpty());
}

TEST(DoctorFirewall, JumpsAreFollowed) {
  const auto found = obstacles("accept", {rule(R"({"jump":{"target":"other"}})"),
                                          rule(R"({"counter":null},{"reject":null})", "other")});
  EXPECT_THAT(found, SizeIs(1));
}

TEST(DoctorFirewall, AJumpThatNeverEnds) {
  EXPECT_THAT(obstacles("accept", {rule(R"({"jump":{"target":"other"}})"),
                                   rule(R"({"jump":{"target":"other"}})", "other")}),
              IsEmpty());
}

TEST(DoctorFirewall, RulesOfIptables) {
  EXPECT_THAT(
      obstacles_in_iptables("-P INPUT ACCEPT\n-P FORWARD DROP\n-P OUTPUT ACCEPT\n", "iptables"),
      IsEmpty());
  const auto found = obstacles_in_iptables(
      "-P INPUT ACCEPT\n-P OUTPUT ACCEPT\n-A INPUT -p udp -m udp --dport 4791 -j DROP\n",
      "iptables");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].mend.command, "iptables -I INPUT -p udp --dport 4791 -j ACCEPT");
  EXPECT_THAT(obstacles_in_iptables("-P INPUT DROP\n-P OUTPUT ACCEPT\n"
                                    "-A INPUT -i lo -j ACCEPT\n"
                                    "-A INPUT -m state --state ESTABLISHED -j ACCEPT\n"
                                    "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n",
                                    "ip6tables"),
              ElementsAre(Field(&Obstacle::what, "the policy of ip6tables chain INPUT")));
  EXPECT_THAT(
      obstacles_in_iptables("-P INPUT DROP\n-P OUTPUT ACCEPT\n"
                            "-A INPUT -s 10.0.0.0/24 -p udp -m udp --dport 4791 -j ACCEPT\n",
                            "iptables"),
      IsEmpty());
}

}  // namespace
}  // namespace verbena::doctor
