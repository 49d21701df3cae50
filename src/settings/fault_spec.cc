#include "settings/fault_spec.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace verbena::settings {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 4> kTimes{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
constexpr std::array<Unit, 4> kRates{{{"bit", 1}, {"Kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}}};

constexpr std::string_view kShareForm = "a probability, 0% to 100% or 0 to 1";
constexpr std::string_view kDelayForm =
    "TIME or TIME~JITTER, at most 60s, in ns, us, ms or s: 2ms or 2ms~0.5ms";
constexpr std::string_view kRateForm = "1Kbit to 1000Gbit, in bit, Kbit, Mbit or Gbit";
constexpr std::string_view kSeedForm = "a whole number";

/// A number that is not negative, and what stands behind it.
struct Measure {
  double number;
  std::string_view unit;
};

std::optional<Measure> measure(std::string_view text) {
  Measure m{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, m.number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(m.number) || std::signbit(m.number)) return {};
  m.unit = {at, static_cast<std::size_t>(end - at)};
  return m;
}

template <std::size_t N>
std::optional<double> with_unit(std::string_view text, const std::array<Unit, N>& units) {
  const auto m = measure(text);
  if (!m) return std::nullopt;
  for (const Unit& unit : units) {
    if (m->unit == unit.name) return m->number * unit.factor;
  }
  return std::nullopt;
}

bool set_share(double& share, std::string_view value) {
  const auto m = measure(value);
  if (!m || (!m->unit.empty() && m->unit != "%")) return false;
  share = m->unit == "%" ? m->number / 100 : m->number;
  return share <= 1;
}

std::optional<Duration> time_of(std::string_view text) {
  const auto ns = with_unit(text, kTimes);
  if (!ns || *ns > static_cast<double>(FaultSpec::kMaxDelay.count())) return std::nullopt;
  return Duration{std::llround(*ns)};
}

bool set_delay(FaultSpec& spec, std::string_view value) {
  const auto tilde = value.find('~');
  const auto delay = time_of(value.substr(0, tilde));
  const auto jitter =
      tilde == std::string_view::npos ? Duration{} : time_of(value.substr(tilde + 1));
  if (!delay || !jitter || *jitter > *delay) return false;
  spec.delay = *delay;
  spec.jitter = *jitter;
  return true;
}

bool set_rate(FaultSpec& spec, std::string_view value) {
  spec.rate = with_unit(value, kRates).value_or(0);
  return spec.rate >= FaultSpec::kMinRate && spec.rate <= FaultSpec::kMaxRate;
}

bool set_seed(FaultSpec& spec, std::string_view value) {
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, spec.seed);
  return error == std::errc{} && at == end;
}

struct Key {
  std::string_view name;
  std::string_view form;
  bool (*set)(FaultSpec&, std::string_view);
};

constexpr std::array<Key, 7> kKeys{{
    {"drop", kShareForm, [](FaultSpec& s, std::string_view v) { return set_share(s.drop, v); }},
    {"dup", kShareForm, [](FaultSpec& s, std::string_view v) { return set_share(s.duplicate, v); }},
    {"reorder", kShareForm,
     [](FaultSpec& s, std::string_view v) { return set_share(s.reorder, v); }},
    {"corrupt", kShareForm,
     [](FaultSpec& s, std::string_view v) { return set_share(s.corrupt, v); }},
    {"delay", kDelayForm, set_delay},
    {"rate", kRateForm, set_rate},
    {"seed", kSeedForm, set_seed},
}};

const Key* key_named(std::string_view name) {
  if (name == "duplicate") name = "dup";  // its long name
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

Error complaint(std::string_view part, std::string_view reason) {
  return {EINVAL, "\"" + std::string{part} + "\": " + std::string{reason}};
}

Status set_part(FaultSpec& spec, std::string_view part, std::vector<const Key*>& seen) {
  const auto equals = part.find('=');
  const Key* const key = key_named(part.substr(0, equals));
  if (key == nullptr || equals == std::string_view::npos) {
    return complaint(part, "use " + std::string{kFaultForm});
  }
  for (const Key* before : seen) {
    if (before == key) return complaint(part, std::string{key->name} + " is given twice");
  }
  seen.push_back(key);
  if (!key->set(spec, part.substr(equals + 1))) {
    return complaint(part, std::string{key->name} + " must be " + std::string{key->form});
  }
  return Ok{};
}

}  // namespace

Result<FaultSpec> parse_fault_spec(std::string_view text) {
  FaultSpec spec;
  std::vector<const Key*> seen;
  for (std::size_t from = 0; from <= text.size();) {
    const auto comma = std::min(text.find(',', from), text.size());
    if (auto set = set_part(spec, text.substr(from, comma - from), seen); !set) return set.error();
    from = comma + 1;
  }
  return spec;
}

}  // namespace verbena::settings
