#include "memory/host_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "memory/fault_handler.h"
#include "memory/guarded_copy.h"
#include "memory/guarded_word.h"
#include "memory/last_unit.h"
#include "memory/program_memory.h"
#include "system/kernel_calls.h"

namespace verbena::memory {

namespace {

/// The ICRC of one frame and the headers of the next.
constexpr std::size_t kMaxGap = 128;
constexpr std::size_t kMaxPieces = 128;

}  // namespace

Status HostMemory::prepare(const Segment& range, bool write) {
  return prepare_program_memory(range, write);
}

// ---- in user mode

bool HostMemory::gather(std::span<const Segment> from, std::span<std::uint8_t> into) {
  if (!faults_are_caught()) return write_frame(from, into);
  std::uint8_t* at = into.data();
  for (const Segment& s : from) {
    if (!guarded_gather(at, reinterpret_cast<const void*>(s.address), s.length)) {
      return write_frame(from, into);
    }
    at += s.length;
  }
  return true;
}

bool HostMemory::scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) {
  if (!faults_are_caught()) return read_frame(from, into);
  const std::uint8_t* at = from.data();
  for (const Segment& s : into) {
    if (!guarded_scatter(reinterpret_cast<void*>(s.address), at, s.length)) {
      return read_frame(from, into);
    }
    at += s.length;
  }
  return true;
}

bool HostMemory::gather_parts(std::uint64_t address, const FrameParts& into) {
  if (!faults_are_caught()) return write_frames(address, into);
  const std::size_t size = into.first.size();
  for (std::size_t i = 0; i < into.count; ++i) {
    const auto* const from = reinterpret_cast<const void*>(address + i * size);
    if (!guarded_gather(into[i].data(), from, size)) return write_frames(address, into);
  }
  return true;
}

bool HostMemory::scatter_all(std::span<const Copy> list) {
  if (!faults_are_caught()) return read_frames(list);
  for (const Copy& c : list) {
    if (!guarded_scatter(reinterpret_cast<void*>(c.to), c.from.data(), c.from.size())) {
      return read_frames(list);
    }
  }
  return true;
}

// ---- by the kernel

namespace {

/// The kernel may copy a piece by string instructions, whose stores are seen in any order; but a
/// piece is seen before the next one. A piece that is an aligned word is one store, except that
/// x86 without fast short string instructions copies less than 8 bytes one by one. Returns how many
/// pieces there are.
int last_unit_apart(iovec* pieces, std::uint64_t address, std::size_t bytes) {
  auto* const at = reinterpret_cast<std::uint8_t*>(address);
  const std::size_t unit = last_unit(address, bytes);
  if (bytes <= unit) {
    pieces[0] = {at, bytes};
    return 1;
  }
  pieces[0] = {at, bytes - unit};
  pieces[1] = {at + bytes - unit, unit};
  return 2;
}

}  // namespace

bool HostMemory::write_frame(std::span<const Segment> from, std::span<std::uint8_t> into) {
  if (!frames_.hold(into)) {  // in a ring between processes
    const std::span<std::uint8_t> scratch = frames_.scratch();
    if (into.size() > scratch.size() || !write_frame(from, scratch.first(into.size())))
      return false;
    std::copy_n(scratch.begin(), into.size(), into.begin());
    return true;
  }
  auto at = frames_.offset_of(into.data());
  for (const Segment& s : from) {
    const auto n =
        kernel::pwrite(frames_.fd(), reinterpret_cast<const void*>(s.address), s.length, at);
    if (n != static_cast<ssize_t>(s.length)) return false;
    at += static_cast<off_t>(s.length);
  }
  return true;
}

bool HostMemory::read_frame(std::span<const std::uint8_t> from, std::span<const Segment> into) {
  if (!frames_.hold(from)) {
    const std::span<std::uint8_t> scratch = frames_.scratch();
    if (from.size() > scratch.size()) return false;
    std::copy(from.begin(), from.end(), scratch.begin());
    from = scratch.first(from.size());
  }
  auto at = frames_.offset_of(from.data());
  for (const Segment& s : into) {
    std::array<iovec, 2> pieces;
    const int count = last_unit_apart(pieces.data(), s.address, s.length);
    const auto n = kernel::preadv(frames_.fd(), pieces.data(), count, at);
    if (n != static_cast<ssize_t>(s.length)) return false;
    at += static_cast<off_t>(s.length);
  }
  return true;
}

bool HostMemory::write_frames(std::uint64_t address, const FrameParts& into) {
  static constexpr std::array<std::uint8_t, kMaxGap> kZeros{};
  const std::size_t size = into.first.size();
  const std::size_t gap = into.stride - size;
  std::array<iovec, kMaxPieces> pieces;
  if (gap > kMaxGap || 2 * into.count > kMaxPieces) return Dma::gather_parts(address, into);
  const std::size_t bytes = into.count * into.stride - gap;
  if (!frames_.hold({into.first.data(), bytes})) return Dma::gather_parts(address, into);
  for (std::size_t i = 0; i < into.count; ++i) {
    pieces[2 * i] = {reinterpret_cast<void*>(address + i * size), size};
    pieces[2 * i + 1] = {const_cast<std::uint8_t*>(kZeros.data()), gap};
  }
  const auto n = kernel::pwritev(frames_.fd(), pieces.data(), static_cast<int>(2 * into.count - 1),
                                 frames_.offset_of(into.first.data()));
  return n == static_cast<ssize_t>(bytes);
}

bool HostMemory::read_frames(std::span<const Copy> list) {
  while (!list.empty()) {
    std::array<std::uint8_t, kMaxGap> nowhere;
    std::array<iovec, kMaxPieces> pieces;
    const std::span<const std::uint8_t> first = list.front().from;
    if (!frames_.hold(first)) return Dma::scatter_all(list);
    const auto begin = frames_.offset_of(first.data());
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t taken = 0;
    for (; taken < list.size() && count + 3 <= kMaxPieces; ++taken) {
      const Copy& c = list[taken];
      if (!frames_.hold(c.from)) break;
      const auto end = begin + static_cast<off_t>(bytes), next = frames_.offset_of(c.from.data());
      if (next < end || next - end > static_cast<off_t>(kMaxGap)) break;
      const auto gap = static_cast<std::size_t>(next - end);
      if (gap > 0) pieces[count++] = {nowhere.data(), gap};
      count += static_cast<std::size_t>(last_unit_apart(&pieces[count], c.to, c.from.size()));
      bytes += gap + c.from.size();
    }
    const auto n = kernel::preadv(frames_.fd(), pieces.data(), static_cast<int>(count), begin);
    if (n != static_cast<ssize_t>(bytes)) return false;
    list = list.subspan(taken);
  }
  return true;
}

// ---- words

namespace {

std::uint64_t* word_at(std::uint64_t address) { return reinterpret_cast<std::uint64_t*>(address); }

/// Where faults aren't caught: the program could write the word now.
bool is_writable_word(std::uint64_t address) {
  return prepare_program_memory({address, sizeof(std::uint64_t)}, /*write=*/true).ok();
}

std::optional<std::uint64_t> held_by(const GuardedWord& word) {
  if (word.done == 0) return std::nullopt;
  return word.held;
}

}  // namespace

std::optional<std::uint64_t> HostMemory::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                      std::uint64_t swap) {
  std::uint64_t* const word = word_at(address);
  if (faults_are_caught()) return held_by(guarded_compare_swap(word, compare, swap));
  if (!is_writable_word(address)) return std::nullopt;
  std::atomic_ref{*word}.compare_exchange_strong(compare, swap);
  return compare;  // what it held, either way
}

std::optional<std::uint64_t> HostMemory::fetch_add(std::uint64_t address, std::uint64_t add) {
  std::uint64_t* const word = word_at(address);
  if (faults_are_caught()) return held_by(guarded_fetch_add(word, add));
  if (!is_writable_word(address)) return std::nullopt;
  return std::atomic_ref{*word}.fetch_add(add);
}

bool HostMemory::store(std::uint64_t address, std::uint64_t value) {
  std::uint64_t* const word = word_at(address);
  if (faults_are_caught()) return guarded_store(word, value).done != 0;
  if (!is_writable_word(address)) return false;
  std::atomic_ref{*word}.store(value);
  return true;
}

}  // namespace verbena::memory
