#pragma once

#include <string>

#include "tools/doctor/check.h"

namespace verbena::doctor {

/// How many there are of each.
struct Tally {
  int passed = 0;
  int warnings = 0;
  int failures = 0;
};
[[nodiscard]] Tally tally(const Findings& findings);

/// For a reader: the mark, the check, what was seen; below it why it matters and what mends it.
/// `utf8`: with the marks ✓ and ✗, else "ok" and "X".
[[nodiscard]] std::string as_text(const Finding& finding, bool utf8);

/// The line below all findings.
[[nodiscard]] std::string summary(const Tally& tally);

/// docs/doctor.md has the schema. `host`: empty: none was asked for.
[[nodiscard]] std::string as_json(const Findings& findings, const std::string& host);

}  // namespace verbena::doctor
