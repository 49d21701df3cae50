#include "wire/capture.h"

#include <net/if.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "packet/icrc.h"
#include "packet/packet.h"

namespace verbena::wire {
namespace {

/// What the kernel gives packets whose sender doesn't care.
constexpr std::uint8_t kDefaultHopLimit = 64;

std::uint64_t wall_clock() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

/// The name of the device.
std::string name_of(unsigned interface) {
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(interface, name.data()) == nullptr) return "vb";
  return std::string{"vb_"} + name.data();
}

/// 0 of a damaged frame.
std::uint16_t identification_of(const packet::Datagram& d) {
  if (d.bytes.size() < packet::kIcrcSize) return 0;
  const auto size = d.bytes.size() - packet::kIcrcSize;
  return packet::recover_identification({.source = d.source,
                                         .destination = d.destination,
                                         .source_port = d.source_port,
                                         .destination_port = packet::kRocePort},
                                        d.bytes.first(size), packet::load_icrc(&d.bytes[size]))
      .value_or(0);
}

}  // namespace

Result<std::unique_ptr<Capture>> Capture::open(const std::string& path) {
  auto file = OutputFile::open(path);
  if (!file) return Error{file.error().code, "capture " + file.error().message};
  std::unique_ptr<Capture> capture{new Capture{std::move(file).value()}};
  pcapng::append_section(capture->buffer_, "Verbena, process " + std::to_string(::getpid()));
  capture->write();
  if (!capture->error_.empty()) {
    return Error{EIO, "capture: " + capture->error_ + "; make room or name another file"};
  }
  return capture;
}

void Capture::sending() { sending_ = wall_clock(); }

void Capture::sent(const packet::Flow& flow, std::span<const std::uint8_t> frames,
                   std::size_t segment, unsigned interface) {
  pcapng::PacketInfo info{
      .interface = number_of(interface), .direction = pcapng::Direction::sent, .time = sending_};
  packet::Datagram d{.source = flow.source,
                     .destination = flow.destination,
                     .source_port = flow.source_port,
                     .traffic_class = flow.traffic_class,
                     .hop_limit = flow.hop_limit != 0 ? flow.hop_limit : kDefaultHopLimit,
                     .bytes = {}};
  for (; !frames.empty(); frames = frames.subspan(d.bytes.size())) {
    d.bytes = frames.first(std::min(segment, frames.size()));
    append(info, d);
    ++info.identification;
  }
}

void Capture::received(const Train& train, unsigned interface) {
  pcapng::PacketInfo info{.interface = number_of(interface),
                          .direction = pcapng::Direction::received,
                          .time = wall_clock()};
  auto frames = train.whole.bytes;
  packet::Datagram d = train.whole;
  for (; !frames.empty(); frames = frames.subspan(d.bytes.size())) {
    d.bytes = frames.first(std::min(train.segment, frames.size()));
    info.identification = identification_of(d);
    append(info, d);
  }
}

void Capture::append(const pcapng::PacketInfo& info, const packet::Datagram& d) {
  if (!error_.empty()) {
    ++lost_;
    return;
  }
  pcapng::append_packet(buffer_, info, d);
  ++frames_;
  if (buffer_.size() >= kBuffer) write();
}

std::uint32_t Capture::number_of(unsigned interface) {
  const auto found = std::find(interfaces_.begin(), interfaces_.end(), interface);
  const auto number = static_cast<std::uint32_t>(found - interfaces_.begin());
  if (found == interfaces_.end()) {
    interfaces_.push_back(interface);
    pcapng::append_interface(buffer_, name_of(interface));
  }
  return number;
}

void Capture::write() {
  if (buffer_.empty()) return;
  const auto written = file_.append(buffer_);
  if (!written && error_.empty()) error_ = written.error().message;
  if (!error_.empty()) lost_ += frames_;
  buffer_.clear();
  frames_ = 0;
}

}  // namespace verbena::wire
