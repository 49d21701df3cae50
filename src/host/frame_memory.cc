#include "host/frame_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>

#include "host/log.h"
#include "host/program_memory.h"
#include "system/kernel_calls.h"

namespace verbena::host {

namespace {

/// The ICRC of one frame and the headers of the next.
constexpr std::size_t kMaxGap = 128;
constexpr std::size_t kMaxPieces = 128;

bool within(std::span<const std::uint8_t> memory, std::span<const std::uint8_t> piece) {
  const std::less_equal<const std::uint8_t*> before;
  return before(memory.data(), piece.data()) &&
         before(piece.data() + piece.size(), memory.data() + memory.size());
}

}  // namespace

Result<std::unique_ptr<FrameMemory>> FrameMemory::create(std::size_t bytes) {
  const std::size_t whole = bytes + kScratch;
  // Beyond this limit the kernel raises SIGXFSZ, for a memfd too.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < whole) {
    return Error{EFBIG, fmt::format("the limit on file sizes (ulimit -f) is {} bytes, and frames "
                                    "need {}: raise it",
                                    limit.rlim_cur, whole)};
  }
  const int fd = memfd_create("verbena-frames", MFD_CLOEXEC);
  if (fd < 0) return Error{errno, fmt::format("memfd_create: {}", std::strerror(errno))};
  void* at = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(whole)) == 0) {
    at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (at == MAP_FAILED) {
    const int why = errno;
    kernel::close(fd);
    return Error{why, fmt::format("{} bytes of memory for frames: {}", bytes, std::strerror(why))};
  }
  // A forked child must not see (and with it keep, or write into) what we send.
  madvise(at, whole, MADV_DONTFORK);
  return std::unique_ptr<FrameMemory>{new FrameMemory{fd, {static_cast<std::uint8_t*>(at), bytes}}};
}

FrameMemory::~FrameMemory() {
  munmap(bytes_.data(), bytes_.size() + kScratch);
  if (fd_ >= 0) kernel::close(fd_);
}

void FrameMemory::abandon() {
  kernel::close(fd_);
  fd_ = -1;
}

bool FrameMemory::inside(const std::uint8_t* p, std::size_t n) const {
  const bool in = within(bytes_, {p, n});
  if (!in) log(LogLevel::error, "a frame of {} bytes lies outside the frame memory", n);
  return in;
}

bool FrameMemory::gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) {
  if (!inside(into.data(), into.size())) return false;
  auto at = static_cast<off_t>(into.data() - bytes_.data());
  for (const engine::Segment& s : from) {
    if (s.address == engine::Segment::kNull) {
      std::memset(bytes_.data() + at, 0, s.length);
      at += static_cast<off_t>(s.length);
      continue;
    }
    const auto n = kernel::pwrite(fd_, reinterpret_cast<const void*>(s.address), s.length, at);
    if (n != static_cast<ssize_t>(s.length)) return false;
    at += static_cast<off_t>(s.length);
  }
  return true;
}

bool FrameMemory::scatter(std::span<const std::uint8_t> from,
                          std::span<const engine::Segment> into) {
  if (from.size() <= kScratch && !within(bytes_, from)) {
    std::uint8_t* const scratch = bytes_.data() + bytes_.size();
    std::copy(from.begin(), from.end(), scratch);
    from = {scratch, from.size()};
  } else if (!inside(from.data(), from.size())) {
    return false;
  }
  auto at = static_cast<off_t>(from.data() - bytes_.data());
  for (const engine::Segment& s : into) {
    if (s.address != engine::Segment::kNull) {
      const auto n = kernel::pread(fd_, reinterpret_cast<void*>(s.address), s.length, at);
      if (n != static_cast<ssize_t>(s.length)) return false;
    }
    at += static_cast<off_t>(s.length);
  }
  return true;
}

bool FrameMemory::gather_parts(std::uint64_t address, const engine::FrameParts& into) {
  static constexpr std::array<std::uint8_t, kMaxGap> kZeros{};
  const std::size_t size = into.first.size();
  const std::size_t gap = into.stride - size;
  std::array<iovec, kMaxPieces> pieces;
  if (gap > kMaxGap || 2 * into.count > kMaxPieces || address == engine::Segment::kNull) {
    return Dma::gather_parts(address, into);
  }
  const std::size_t bytes = into.count * into.stride - gap;
  if (!inside(into.first.data(), bytes)) return false;
  for (std::size_t i = 0; i < into.count; ++i) {
    pieces[2 * i] = {reinterpret_cast<void*>(address + i * size), size};
    pieces[2 * i + 1] = {const_cast<std::uint8_t*>(kZeros.data()), gap};
  }
  const auto n = kernel::pwritev(fd_, pieces.data(), static_cast<int>(2 * into.count - 1),
                                 static_cast<off_t>(into.first.data() - bytes_.data()));
  return n == static_cast<ssize_t>(bytes);
}

bool FrameMemory::scatter_all(std::span<const engine::Placement> list) {
  const auto is_null = [](const engine::Placement& p) {
    return p.address == engine::Segment::kNull;
  };
  if (std::any_of(list.begin(), list.end(), is_null)) return Dma::scatter_all(list);
  while (!list.empty()) {
    std::array<std::uint8_t, kMaxGap> nowhere;
    std::array<iovec, kMaxPieces> pieces;
    const std::span<const std::uint8_t> first = list.front().from;
    if (!within(bytes_, first)) return Dma::scatter_all(list);
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t taken = 0;
    for (; taken < list.size() && count + 2 <= kMaxPieces; ++taken) {
      const engine::Placement& p = list[taken];
      const auto gap = static_cast<std::size_t>(p.from.data() - (first.data() + bytes));
      if (gap > kMaxGap || !within(bytes_, p.from)) break;  // one that lies before has a huge gap
      if (gap > 0) pieces[count++] = {nowhere.data(), gap};
      pieces[count++] = {reinterpret_cast<void*>(p.address), p.from.size()};
      bytes += gap + p.from.size();
    }
    const auto n = kernel::preadv(fd_, pieces.data(), static_cast<int>(count),
                                  static_cast<off_t>(first.data() - bytes_.data()));
    if (n != static_cast<ssize_t>(bytes)) return false;
    list = list.subspan(taken);
  }
  return true;
}

namespace {

/// The word, if the program could write it now.
std::uint64_t* writable_word(std::uint64_t address) {
  return prepare_memory({address, sizeof(std::uint64_t)}, /*write=*/true)
             ? reinterpret_cast<std::uint64_t*>(address)
             : nullptr;
}

}  // namespace

std::optional<std::uint64_t> FrameMemory::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                       std::uint64_t swap) {
  std::uint64_t* const word = writable_word(address);
  if (word == nullptr) return std::nullopt;
  std::atomic_ref{*word}.compare_exchange_strong(compare, swap);
  return compare;  // what it held, either way
}

std::optional<std::uint64_t> FrameMemory::fetch_add(std::uint64_t address, std::uint64_t add) {
  std::uint64_t* const word = writable_word(address);
  if (word == nullptr) return std::nullopt;
  return std::atomic_ref{*word}.fetch_add(add);
}

bool FrameMemory::store(std::uint64_t address, std::uint64_t value) {
  std::uint64_t* const word = writable_word(address);
  if (word == nullptr) return false;
  std::atomic_ref{*word}.store(value);
  return true;
}

}  // namespace verbena::host
