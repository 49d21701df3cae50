#include "labs/common/lab_c.h"

#include <poll.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "labs/common/badge.h"
#include "labs/common/lab.h"
#include "labs/common/pattern.h"
#include "labs/common/state.h"
#include "rdma++/rdma.h"

namespace {

const lab::Options& all(const lab_options* options) {
  return *static_cast<const lab::Options*>(options->all);
}

/// Of printf(3).
std::string text(const char* format, va_list values) {
  va_list again;
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string result(static_cast<std::size_t>(std::max(length, 0)) + 1, '\0');
  std::vsnprintf(result.data(), result.size(), format, values);
  result.pop_back();
  return result;
}

socklen_t give(const rdma::SocketAddress& from, sockaddr_storage* to) {
  *to = {};
  std::memcpy(to, from.raw(), from.size());
  return from.size();
}

/// What a C function hands out stays until the same function is called again.
const char* keep(std::string& place, std::string words) {
  place = std::move(words);
  return place.c_str();
}

std::span<const std::byte> bytes_of(const void* bytes, std::size_t length) {
  return {static_cast<const std::byte*>(bytes), length};
}

bool poll_one(int fd, int milliseconds) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  int count = 0;
  do {
    count = poll(&waiting, 1, milliseconds);
  } while (count < 0 && errno == EINTR);
  lab::check(count >= 0, "poll: {}", std::strerror(errno));
  return count > 0;
}

}  // namespace

lab_options lab::for_c(const Options& options) {
  return {.host = options.host.c_str(),
          .device = options.device.c_str(),
          .port = options.port,
          .size = options.size,
          .all = &options};
}

void lab_say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  const std::string line = text(format, values);
  va_end(values);
  lab::say(line);
}

void lab_shown(const char* format, ...) {
  va_list values;
  va_start(values, format);
  const std::string line = text(format, values);
  va_end(values);
  lab::shown(line);
}

void lab_check(bool holds, const char* otherwise, ...) {
  if (holds) return;
  va_list values;
  va_start(values, otherwise);
  const std::string why = text(otherwise, values);
  va_end(values);
  throw lab::Failed{why};
}

void lab_fail(const char* why, ...) {
  va_list values;
  va_start(values, why);
  const std::string words = text(why, values);
  va_end(values);
  throw lab::Failed{words};
}

void lab_ready(std::uint16_t port) { lab::ready(port); }

bool lab_readable(const lab_options* options, int fd) {
  return poll_one(fd, rdma::Deadline{all(options).deadline}.poll_timeout());
}

bool lab_readable_within(const lab_options* options, int fd, int milliseconds) {
  return poll_one(fd, std::min(milliseconds, rdma::Deadline{all(options).deadline}.poll_timeout()));
}

void lab_wait_for(const lab_options* options, int fd, const char* what) {
  lab::in_time(lab_readable(options, fd), "{}", what);
}

void lab_in_time(const lab_options* options, const char* waiting_for) {
  lab::in_time(std::chrono::steady_clock::now() < all(options).deadline, "{}", waiting_for);
}

void lab_nobody_came(const lab_options* options) { lab::nobody_came(all(options)); }

void lab_not_there(const lab_options* options, const char* call, int code, const char* cause) {
  const lab::Options& o = all(options);
  throw lab::Failed{
      lab::not_there(o, rdma::Error{call, fmt::format("to {}:{}", o.host, o.port), code, cause})};
}

socklen_t lab_server_address(const lab_options* options, sockaddr_storage* to) {
  return give(rdma::SocketAddress::of(options->host, options->port), to);
}

socklen_t lab_listen_address(const lab_options* options, sockaddr_storage* at) {
  if (*options->device == '\0') return give(rdma::SocketAddress::any(options->port), at);
  const rdma::Context context{rdma::Device::by_name(options->device)};
  return give(rdma::SocketAddress::of(context.best_gid(), options->port), at);
}

socklen_t lab_source_address(const lab_options* options, sockaddr_storage* from) {
  rdma::ConnectionOptions wanted;
  wanted.device = options->device;
  const auto to = rdma::SocketAddress::of(options->host, options->port);
  const auto source = rdma::detail::source_for(to, wanted);
  return source ? give(*source, from) : 0;
}

const char* lab_address_text(const sockaddr* address) {
  static std::string here;
  return keep(here, rdma::SocketAddress{address}.to_string());
}

const char* lab_device_name(const lab_options* options) {
  static std::string here;
  return keep(here, rdma::choose_device(options->device).name());
}

void lab_badge(const lab_options* options, std::uint8_t badge[LAB_BADGE_SIZE]) {
  static_assert(sizeof(lab::Badge) == LAB_BADGE_SIZE);
  const lab::Badge ours = lab::badge_of(all(options));
  std::memcpy(badge, &ours, sizeof ours);
}

bool lab_is_badge(const void* shown, std::size_t length) {
  return lab::is_badge(bytes_of(shown, length));
}

const char* lab_stranger(const lab_options* options, const void* shown, std::size_t length) {
  static std::string here;
  const std::string why = lab::stranger(all(options), bytes_of(shown, length));
  return why.empty() ? nullptr : keep(here, why);
}

void lab_fill(void* bytes, std::size_t length, std::uint64_t seed) {
  lab::fill_pattern({static_cast<std::byte*>(bytes), length}, seed);
}

void lab_check_bytes(const void* bytes, std::size_t length, std::uint64_t seed, const char* what) {
  lab::check_pattern(bytes_of(bytes, length), seed, what);
}

const char* lab_state_name(int state) { return lab::state_name(static_cast<ibv_qp_state>(state)); }
