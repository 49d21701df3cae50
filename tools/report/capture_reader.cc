#include "tools/report/capture_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "tools/report/frame_reader.h"

namespace verbena::report {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint32_t kSectionBlock = 0x0a0d'0d0a;
constexpr std::uint32_t kByteOrder = 0x1a2b'3c4d;
constexpr std::uint32_t kMicroseconds = 0xa1b2'c3d4;
constexpr std::uint32_t kNanoseconds = 0xa1b2'3c4d;

constexpr std::uint32_t swapped(std::uint32_t v) { return __builtin_bswap32(v); }

/// Numbers as the machine wrote them that made the file.
struct Order {
  bool swap = false;

  [[nodiscard]] std::uint32_t u32(const std::uint8_t* p) const {
    std::uint32_t v = 0;
    std::memcpy(&v, p, sizeof v);
    return swap ? swapped(v) : v;
  }
  [[nodiscard]] std::uint16_t u16(const std::uint8_t* p) const {
    std::uint16_t v = 0;
    std::memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap16(v) : v;
  }
};

/// Collects the packets of one file.
class Collector {
 public:
  Collector(const std::string& path, Observations& to) : path_{path}, to_{to} {
    source_ = static_cast<std::uint32_t>(to.files.size());
    to.files.push_back(path);
    observer_ = static_cast<std::uint32_t>(to.observers.size());
    Observer observer;
    observer.source = source_;
    observer.clock = path;
    to.observers.push_back(std::move(observer));
  }

  /// `size`: on the wire; the capture may have less.
  void take(LinkType link, Bytes frame, std::size_t size, std::int64_t time, Seen direction) {
    auto packet = read_frame(link, frame, to_);
    if (!packet) {
      ++(frame.size() < size && may_be_roce(link, frame) ? cut_short_ : others_);
      return;
    }
    packet->kind = direction;
    packet->time = time;
    packet->observer = observer_;
    to_.all.push_back(std::move(*packet));
  }
  void remark(std::string_view what) { to_.remarks.push_back(fmt::format("{}: {}", path_, what)); }
  void end() {
    if (others_ > 0) {
      remark(fmt::format("{} no RoCEv2, and {} left out",
                         others_ == 1 ? "1 packet is" : fmt::format("{} packets are", others_),
                         others_ == 1 ? "is" : "are"));
    }
    if (cut_short_ > 0) {
      remark(
          fmt::format("{} cut short by the capture (snap length), and {} left out",
                      cut_short_ == 1 ? "1 packet was" : fmt::format("{} packets were", cut_short_),
                      cut_short_ == 1 ? "is" : "are"));
    }
  }
  [[noreturn]] void fail(std::size_t at, std::string_view why) const {
    throw std::runtime_error{fmt::format("{}: at byte {}: {}", path_, at, why)};
  }

 private:
  const std::string& path_;
  Observations& to_;
  std::uint32_t source_ = 0;
  std::uint32_t observer_ = 0;
  std::uint64_t others_ = 0;
  std::uint64_t cut_short_ = 0;  // before the end of their headers
};

// ---------------------------------------------------------------- classic pcap

void read_classic(Bytes file, Collector& to) {
  constexpr std::size_t kHeader = 24, kRecord = 16;
  std::uint32_t magic = 0;
  std::memcpy(&magic, file.data(), sizeof magic);
  const Order order{magic == swapped(kMicroseconds) || magic == swapped(kNanoseconds)};
  const bool nanoseconds = (order.swap ? swapped(magic) : magic) == kNanoseconds;
  if (file.size() < kHeader) to.fail(file.size(), "the file ends in its header");
  const auto link = static_cast<LinkType>(order.u32(&file[20]) & 0xffff);
  std::size_t at = kHeader;
  while (file.size() - at >= kRecord) {
    const std::size_t size = order.u32(&file[at + 8]);
    if (size > file.size() - at - kRecord) break;
    const std::int64_t time = std::int64_t{order.u32(&file[at])} * 1'000'000'000 +
                              std::int64_t{order.u32(&file[at + 4])} * (nanoseconds ? 1 : 1000);
    to.take(link, file.subspan(at + kRecord, size), order.u32(&file[at + 12]), time, Seen::passing);
    at += kRecord + size;
  }
  if (at != file.size()) to.remark("the last packet was cut off, and is left out");
}

// ---------------------------------------------------------------- pcapng

struct Interface {
  LinkType link{};
  std::uint64_t ticks = 1'000'000;  // in a second
};

/// Nanoseconds of so many ticks.
std::int64_t nanoseconds(std::uint64_t ticks, std::uint64_t a_second) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return time_of(
      static_cast<std::uint64_t>(std::min(Wide{ticks} * 1'000'000'000 / a_second, Wide{kMost})));
}

class Pcapng {
 public:
  Pcapng(Bytes file, Collector& to) : file_{file}, to_{to} {}

  void read() {
    std::size_t at = 0;
    while (file_.size() - at >= kSmallest) {
      const bool section = order_.u32(&file_[at]) == kSectionBlock;
      if (section) begin_section(at);
      const std::size_t size = order_.u32(&file_[at + 4]);
      if (size < kSmallest || size % 4 != 0) to_.fail(at, "a block of impossible size");
      if (size > file_.size() - at) break;
      take_block(order_.u32(&file_[at]), at, file_.subspan(at + 8, size - kSmallest));
      at += size;
    }
    if (at != file_.size()) to_.remark("the last block was cut off, and is left out");
    if (untimed_ == 1) to_.remark("1 packet without a time is left out");
    if (untimed_ > 1) to_.remark(fmt::format("{} packets without a time are left out", untimed_));
  }

 private:
  static constexpr std::size_t kSmallest = 12;

  void begin_section(std::size_t at) {
    std::uint32_t mark = 0;
    if (file_.size() - at < kSmallest + 4) to_.fail(at, "the file ends in its header");
    std::memcpy(&mark, &file_[at + 8], sizeof mark);
    if (mark != kByteOrder && mark != swapped(kByteOrder)) to_.fail(at, "no byte order");
    order_.swap = mark != kByteOrder;
    interfaces_.clear();
  }

  void take_block(std::uint32_t type, std::size_t at, Bytes body) {
    constexpr std::uint32_t kInterfaceBlock = 1, kSimplePacket = 3, kEnhancedPacket = 6;
    if (type == kInterfaceBlock) add_interface(at, body);
    if (type == kEnhancedPacket) take_packet(at, body);
    if (type == kSimplePacket) ++untimed_;
  }

  void add_interface(std::size_t at, Bytes body) {
    constexpr std::size_t kFixed = 8;
    constexpr std::uint16_t kResolution = 9;
    if (body.size() < kFixed) to_.fail(at, "an interface block that is too short");
    Interface interface;
    interface.link = static_cast<LinkType>(order_.u16(body.data()));
    for_each_option(body.subspan(kFixed), [&](std::uint16_t code, Bytes value) {
      if (code != kResolution || value.empty()) return;
      const unsigned power = value[0] & 0x7f;
      interface.ticks = 1;
      // Finer than a clock of 64 bits can be is nonsense, and stays at the finest that isn't.
      for (unsigned i = 0; i < std::min(power, value[0] & 0x80 ? 62u : 18u); ++i) {
        interface.ticks *= value[0] & 0x80 ? 2 : 10;
      }
    });
    interfaces_.push_back(interface);
  }

  void take_packet(std::size_t at, Bytes body) {
    constexpr std::size_t kFixed = 20;
    constexpr std::uint16_t kFlags = 2;
    if (body.size() < kFixed) to_.fail(at, "a packet block that is too short");
    const std::size_t interface = order_.u32(body.data()), size = order_.u32(&body[12]);
    if (interface >= interfaces_.size()) to_.fail(at, "a packet of an interface that isn't there");
    if (size > body.size() - kFixed) to_.fail(at, "a packet that is longer than its block");
    const std::uint64_t ticks =
        std::uint64_t{order_.u32(&body[4])} << 32 | std::uint64_t{order_.u32(&body[8])};
    Seen direction = Seen::passing;
    const std::size_t padded = (size + 3) & ~std::size_t{3};
    if (kFixed + padded <= body.size()) {
      for_each_option(body.subspan(kFixed + padded), [&](std::uint16_t code, Bytes value) {
        if (code != kFlags || value.size() < 4) return;
        const std::uint32_t way = order_.u32(value.data()) & 3;
        direction = way == 1 ? Seen::received : way == 2 ? Seen::sent : Seen::passing;
      });
    }
    const Interface& from = interfaces_[interface];
    to_.take(from.link, body.subspan(kFixed, size), order_.u32(&body[16]),
             nanoseconds(ticks, from.ticks), direction);
  }

  template <typename F>
  void for_each_option(Bytes options, const F& look) const {
    while (options.size() >= 4) {
      const std::uint16_t code = order_.u16(options.data());
      const std::size_t size = order_.u16(&options[2]);
      if (code == 0 || size > options.size() - 4) return;
      look(code, options.subspan(4, size));
      options = options.subspan(std::min(options.size(), 4 + ((size + 3) & ~std::size_t{3})));
    }
  }

  Bytes file_;
  Collector& to_;
  Order order_;
  std::vector<Interface> interfaces_;
  std::uint64_t untimed_ = 0;
};

std::uint32_t first_word(const std::string& beginning) {
  std::uint32_t word = 0;
  if (beginning.size() >= sizeof word) std::memcpy(&word, beginning.data(), sizeof word);
  return word;
}

}  // namespace

bool looks_like_capture(const std::string& beginning) {
  const std::uint32_t word = first_word(beginning);
  for (const std::uint32_t magic : {kSectionBlock, kMicroseconds, kNanoseconds}) {
    if (word == magic || word == swapped(magic)) return true;
  }
  return false;
}

void read_capture(const std::string& path, Observations& to) {
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error{fmt::format("{}: {}", path, std::strerror(errno))};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const Bytes bytes{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  Collector collector{path, to};
  if (first_word(text) == kSectionBlock) {
    Pcapng{bytes, collector}.read();
  } else if (looks_like_capture(text)) {
    read_classic(bytes, collector);
  } else {
    collector.fail(0, "this is no capture (pcapng or pcap)");
  }
  collector.end();
}

}  // namespace verbena::report
