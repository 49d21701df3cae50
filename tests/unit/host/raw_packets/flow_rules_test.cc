#include "host/raw_packets/flow_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/queue_pair.h"

namespace verbena::host {
namespace {

using Kind = FlowRule::Kind;
using packet::FrameLayer;
using packet::HeaderPattern;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr packet::Mac kOwn{2, 0, 0, 0, 0, 1};
constexpr packet::Mac kOther{2, 0, 0, 0, 0, 2};
constexpr packet::Mac kGroup{1, 0, 0x5e, 0, 0, 1};

FlowRule to(const packet::Mac& mac, std::uint16_t priority = 0) {
  FlowRule rule{.priority = priority};
  HeaderPattern p{.layer = FrameLayer::ethernet};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    p.value[i] = mac[i];
    p.mask[i] = 0xff;
  }
  rule.patterns.push_back(p);
  return rule;
}

struct FlowRulesTest : testing::Test {
  std::vector<engine::QueuePair*> get(const packet::Mac& destination, bool outgoing = false) {
    std::array<std::uint8_t, 60> frame{};
    std::copy(destination.begin(), destination.end(), frame.begin());
    std::vector<engine::QueuePair*> out;
    rules.receivers({frame, outgoing}, kOwn, out);
    return out;
  }

  FlowRules rules;
  engine::QueuePair a{Qpn{1}, {.type = engine::QpType::raw_packet}};
  engine::QueuePair b{Qpn{2}, {.type = engine::QpType::raw_packet}};
  engine::QueuePair c{Qpn{3}, {.type = engine::QpType::raw_packet}};
};

TEST_F(FlowRulesTest, WithoutARuleNobodyGetsAnything) {
  EXPECT_TRUE(rules.empty());
  EXPECT_THAT(get(kOwn), IsEmpty());
  EXPECT_THAT(get(kGroup), IsEmpty());
}

TEST_F(FlowRulesTest, FramesGoToWhoseRuleMatches) {
  rules.add(1, a, to(kOwn));
  rules.add(2, b, to(kGroup));
  EXPECT_THAT(get(kOwn), ElementsAre(&a));
  EXPECT_THAT(get(kGroup), ElementsAre(&b));
  EXPECT_THAT(get(kOther), IsEmpty());
  EXPECT_TRUE(rules.remove(2));
  EXPECT_FALSE(rules.remove(2));
  EXPECT_THAT(get(kGroup), IsEmpty());
}

TEST_F(FlowRulesTest, EqualRulesGetACopyEachAndAQueuePairOne) {
  rules.add(1, a, to(kOwn));
  rules.add(2, b, to(kOwn));
  rules.add(3, a, FlowRule{});
  EXPECT_THAT(get(kOwn), UnorderedElementsAre(&a, &b));
}

TEST_F(FlowRulesTest, FirstPriorityTakesTheFrame) {
  rules.add(1, a, to(kOwn, 7));
  rules.add(2, b, to(kOwn, 3));
  EXPECT_THAT(get(kOwn), ElementsAre(&b));
  rules.remove(2);
  EXPECT_THAT(get(kOwn), ElementsAre(&a));
}

TEST_F(FlowRulesTest, RuleThatDoesNotTrapLetsItGoOn) {
  FlowRule looks = to(kOwn, 1);
  looks.goes_on = true;
  rules.add(1, a, looks);
  rules.add(2, b, to(kOwn, 2));
  rules.add(3, c, to(kOwn, 3));
  EXPECT_THAT(get(kOwn), ElementsAre(&a, &b));
}

TEST_F(FlowRulesTest, DroppedFramesReachNoLaterRule) {
  FlowRule drop = to(kOwn, 1);
  drop.drops = true;
  rules.add(1, a, drop);
  rules.add(2, b, to(kOwn, 2));
  rules.add(3, c, FlowRule{.kind = Kind::all_default});
  EXPECT_THAT(get(kOwn), IsEmpty());
  EXPECT_THAT(get(kOther), ElementsAre(&c));
}

TEST_F(FlowRulesTest, DefaultsGetWhatNoRuleTook) {
  rules.add(1, a, to(kOwn));
  rules.add(2, b, FlowRule{.kind = Kind::all_default});
  rules.add(3, c, FlowRule{.kind = Kind::multicast_default});
  EXPECT_THAT(get(kOwn), ElementsAre(&a));
  EXPECT_THAT(get(kOther), ElementsAre(&b));
  EXPECT_THAT(get(kGroup), UnorderedElementsAre(&b, &c));
}

TEST_F(FlowRulesTest, SnifferSeesEverything) {
  rules.add(1, a, to(kOwn));
  rules.add(2, b, FlowRule{.kind = Kind::sniffer});
  EXPECT_THAT(get(kOwn), UnorderedElementsAre(&a, &b));
  EXPECT_THAT(get(kOther), ElementsAre(&b));
  EXPECT_THAT(get(kOther, /*outgoing=*/true), ElementsAre(&b));
}

TEST_F(FlowRulesTest, OwnFramesComeBackFromGroupsAndFromTheOwnAddress) {
  rules.add(1, a, FlowRule{});
  EXPECT_THAT(get(kGroup, /*outgoing=*/true), ElementsAre(&a));
  EXPECT_THAT(get(kOwn, /*outgoing=*/true), ElementsAre(&a));
  EXPECT_THAT(get(kOther, /*outgoing=*/true), IsEmpty()) << "it is on its way to somebody else";
  EXPECT_THAT(get(kOther), ElementsAre(&a));
}

TEST_F(FlowRulesTest, HalfAnEthernetHeaderIsNoFrame) {
  rules.add(1, a, FlowRule{.kind = Kind::sniffer});
  std::vector<engine::QueuePair*> out;
  const std::array<std::uint8_t, 13> half{};
  rules.receivers({half, false}, kOwn, out);
  EXPECT_THAT(out, IsEmpty());
}

}  // namespace
}  // namespace verbena::host
