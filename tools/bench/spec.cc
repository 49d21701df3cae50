#include "tools/bench/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

namespace verbena::bench {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kMostDepth = 16384;
constexpr std::uint32_t kMostQueuePairs = 4096;
constexpr std::uint64_t kMostRequests = 1 << 18;  // on all queue pairs together
constexpr double kMostSeconds = 600;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

std::string problem_of_words(const Spec& spec) {
  const auto not_known = [](std::string_view what, const std::string& word) {
    return fmt::format("there is no {} \"{}\"", what, word);
  };
  if (!is_one_of(spec.transport,
                 {"rdma", "tcp", "udp", "ucx", "libfabric", "memcpy", "ring", "pull", "slot"})) {
    return not_known("transport", spec.transport);
  }
  if (!is_one_of(spec.test, {"bandwidth", "latency"})) return not_known("test", spec.test);
  if (!is_one_of(spec.completion, {"polling", "events"})) {
    return not_known("completion", spec.completion);
  }
  if (spec.transport != "rdma") return "";
  if (!is_one_of(spec.operation, {"write", "read", "send"})) {
    return not_known("operation", spec.operation);
  }
  if (!is_one_of(spec.service, {"RC", "UC", "UD"})) return not_known("service", spec.service);
  if (!is_one_of(spec.wire, {"auto", "udp", "shm"})) return not_known("wire", spec.wire);
  return "";
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 3> kUnits{"KiB", "MiB", "GiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  std::string_view unit;
  auto value = static_cast<double>(bytes);
  for (std::size_t i = 0; i < kUnits.size() && value >= 1024; ++i) {
    value /= 1024;
    unit = kUnits[i];
  }
  return fmt::format("{:.4g} {}", value, unit);
}

std::string id_of(const Spec& spec) {
  std::string id = fmt::format("{} {}", spec.transport, spec.test);
  if (spec.transport == "rdma") {
    id += fmt::format(" {} {} {}", spec.operation, spec.service, spec.wire);
  }
  id += fmt::format(" {} B, depth {}, queue pairs {}, {}", spec.size, spec.depth, spec.queue_pairs,
                    spec.completion);
  if (spec.loss_percent > 0) id += fmt::format(", loss {:g} %", spec.loss_percent);
  return id;
}

std::string title_of(const Spec& spec) {
  static const nlohmann::json kNames{{"tcp", "TCP"},        {"udp", "raw UDP"},
                                     {"ucx", "UCX"},        {"libfabric", "libfabric"},
                                     {"memcpy", "memcpy"},  {"ring", "bare ring"},
                                     {"pull", "bare pull"}, {"slot", "bare slot"}};
  const bool rdma = spec.transport == "rdma";
  std::string title = rdma ? fmt::format("{} {}", upper(spec.operation), spec.service)
                           : kNames.value(spec.transport, spec.transport);
  if (spec.completion == "events") title += rdma ? ", events" : ", blocking";
  if (rdma && spec.wire != "auto") title += ", wire " + spec.wire;
  if (spec.queue_pairs != 1) title += fmt::format(", {} queue pairs", spec.queue_pairs);
  if (spec.loss_percent > 0) title += fmt::format(", {:g} % lost", spec.loss_percent);
  return title;
}

std::string problem_of(const Spec& spec) {
  if (auto problem = problem_of_words(spec); !problem.empty()) return problem;
  if (spec.size < 1 || spec.size > kMostBytes) {
    return fmt::format("a message of {} bytes; choose 1 to {}", spec.size, kMostBytes);
  }
  if (spec.depth < 1 || spec.depth > kMostDepth) {
    return fmt::format("a depth of {}; choose 1 to {}", spec.depth, kMostDepth);
  }
  if (spec.queue_pairs < 1 || spec.queue_pairs > kMostQueuePairs) {
    return fmt::format("{} queue pairs; choose 1 to {}", spec.queue_pairs, kMostQueuePairs);
  }
  if (std::uint64_t{spec.queue_pairs} * spec.depth > kMostRequests) {
    return fmt::format("{} queue pairs of depth {}; choose at most {} requests together",
                       spec.queue_pairs, spec.depth, kMostRequests);
  }
  if (!(spec.seconds > 0 && spec.seconds <= kMostSeconds)) {
    return fmt::format("a round of {:g} s; choose more than 0 and at most {:g}", spec.seconds,
                       kMostSeconds);
  }
  if (!(spec.loss_percent >= 0 && spec.loss_percent < 100)) {
    return fmt::format("a loss of {:g} %; choose 0 to 99", spec.loss_percent);
  }
  if (spec.transport != "rdma") return "";
  if (spec.service == "UD" && spec.operation != "send") {
    return fmt::format("{} over UD; UD has SEND only", upper(spec.operation));
  }
  if (spec.service == "UC" && spec.operation == "read") return "READ over UC; READ needs RC";
  if (spec.test == "latency" && spec.operation == "write" && spec.completion == "events") {
    return "the latency of WRITE with events; a WRITE makes no event at its target, use send";
  }
  return "";
}

bool is_control(const Spec& spec) { return spec.transport != "rdma"; }

void to_json(nlohmann::json& json, const Spec& spec) {
  json = {{"transport", spec.transport},
          {"test", spec.test},
          {"operation", spec.operation},
          {"service", spec.service},
          {"completion", spec.completion},
          {"wire", spec.wire},
          {"size", spec.size},
          {"depth", spec.depth},
          {"queue_pairs", spec.queue_pairs},
          {"loss_percent", spec.loss_percent},
          {"seconds", spec.seconds}};
}

void from_json(const nlohmann::json& json, Spec& spec) {
  json.at("transport").get_to(spec.transport);
  json.at("test").get_to(spec.test);
  json.at("operation").get_to(spec.operation);
  json.at("service").get_to(spec.service);
  json.at("completion").get_to(spec.completion);
  json.at("wire").get_to(spec.wire);
  json.at("size").get_to(spec.size);
  json.at("depth").get_to(spec.depth);
  json.at("queue_pairs").get_to(spec.queue_pairs);
  json.at("loss_percent").get_to(spec.loss_percent);
  json.at("seconds").get_to(spec.seconds);
}

}  // namespace verbena::bench
