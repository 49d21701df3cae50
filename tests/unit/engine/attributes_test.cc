#include "engine/attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::engine {
namespace {

using testing::HasSubstr;

constexpr unsigned kToInit = Attr::kState | Attr::kPkeyIndex | Attr::kPort | Attr::kAccess;
constexpr unsigned kToRtr = Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn |
                            Attr::kRqPsn | Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer;
constexpr unsigned kToRts = Attr::kState | Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry |
                            Attr::kSqPsn | Attr::kMaxRdAtomic;

QpAttributes to(QpState s) {
  QpAttributes a;
  a.state = s;
  return a;
}

TEST(Transition, TheUsualWayIsLegal) {
  EXPECT_TRUE(check_transition(QpType::rc, QpState::reset, to(QpState::init), kToInit).ok());
  EXPECT_TRUE(check_transition(QpType::rc, QpState::init, to(QpState::rtr), kToRtr).ok());
  EXPECT_TRUE(check_transition(QpType::rc, QpState::rtr, to(QpState::rts), kToRts).ok());
}

TEST(Transition, EveryRequiredAttributeIsRequired) {
  const struct {
    QpState from, target;
    unsigned mask;
  } rows[] = {{QpState::reset, QpState::init, kToInit},
              {QpState::init, QpState::rtr, kToRtr},
              {QpState::rtr, QpState::rts, kToRts}};
  for (const auto& row : rows) {
    for (unsigned bit = 1; bit != 0 && bit <= row.mask; bit <<= 1) {
      if ((row.mask & bit) == 0 || bit == Attr::kState) continue;
      const auto r = check_transition(QpType::rc, row.from, to(row.target), row.mask & ~bit);
      ASSERT_FALSE(r.ok()) << bit;
      EXPECT_EQ(r.error().code, EINVAL);
      EXPECT_THAT(r.error().message, HasSubstr("needs "));
    }
  }
}

TEST(Transition, AttributesOfAnotherTransitionAreRefusedByName) {
  const auto r =
      check_transition(QpType::rc, QpState::reset, to(QpState::init), kToInit | Attr::kSqPsn);
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("RESET to INIT: may not set SQ_PSN"));
}

TEST(Transition, SkippingAStateIsRefused) {
  EXPECT_FALSE(check_transition(QpType::rc, QpState::reset, to(QpState::rts), kToRts).ok());
  EXPECT_FALSE(check_transition(QpType::rc, QpState::init, to(QpState::rts), kToRts).ok());
  EXPECT_FALSE(check_transition(QpType::rc, QpState::error, to(QpState::rts), kToRts).ok());
}

TEST(Transition, EveryStateMayGoToResetAndError) {
  for (auto s : {QpState::reset, QpState::init, QpState::rtr, QpState::rts, QpState::error}) {
    EXPECT_TRUE(check_transition(QpType::rc, s, to(QpState::reset), Attr::kState).ok());
    EXPECT_TRUE(check_transition(QpType::rc, s, to(QpState::error), Attr::kState).ok());
  }
}

TEST(Transition, RawPacketsNeedAPortAndNothingElse) {
  const auto raw = [](QpState from, QpState target, unsigned mask) {
    return check_transition(QpType::raw_packet, from, to(target), Attr::kState | mask).ok();
  };
  EXPECT_FALSE(raw(QpState::reset, QpState::init, 0));
  EXPECT_TRUE(raw(QpState::reset, QpState::init, Attr::kPort));
  EXPECT_FALSE(raw(QpState::reset, QpState::init, Attr::kPort | Attr::kQkey));
  EXPECT_TRUE(raw(QpState::init, QpState::rtr, 0));
  EXPECT_TRUE(raw(QpState::rtr, QpState::rts, 0));
  EXPECT_FALSE(raw(QpState::rtr, QpState::rts, Attr::kSqPsn));
  EXPECT_TRUE(raw(QpState::rts, QpState::sqd, Attr::kNotifyDrained));
  EXPECT_TRUE(raw(QpState::sqe, QpState::rts, 0));
}

TEST(Transition, WrongCurrentStateIsRefused) {
  auto a = to(QpState::rts);
  a.current_state = QpState::sqd;
  EXPECT_FALSE(check_transition(QpType::rc, QpState::rtr, a, kToRts | Attr::kCurrentState).ok());
}

}  // namespace
}  // namespace verbena::engine
