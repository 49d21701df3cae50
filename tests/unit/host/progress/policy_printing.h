#pragma once

// Steps of ProgressPolicy in the messages of failed tests.

#include <ostream>

#include "host/progress/progress_policy.h"

namespace verbena::host {

inline const char* name_of(ProgressPolicy::Step::Kind kind) {
  using Kind = ProgressPolicy::Step::Kind;
  switch (kind) {
    case Kind::work:
      return "work";
    case Kind::ask_for_core:
      return "ask_for_core";
    case Kind::look:
      return "look";
    case Kind::sleep:
      return "sleep";
    case Kind::stand_by:
      return "stand_by";
    case Kind::step_aside:
      return "step_aside";
    case Kind::nap:
      return "nap";
    case Kind::come_back:
      return "come_back";
  }
  return "?";
}

inline void PrintTo(ProgressPolicy::Step::Kind kind, std::ostream* out) { *out << name_of(kind); }

inline void PrintTo(const ProgressPolicy::Step& step, std::ostream* out) {
  *out << name_of(step.kind) << " until ";
  if (step.until == kNever)
    *out << "never";
  else
    *out << step.until.time_since_epoch().count() << " ns";
  *out << (step.control ? ", control" : "") << ", others " << step.others;
}

}  // namespace verbena::host
