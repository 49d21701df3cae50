#include "tools/transfer/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tools/transfer/names.h"

namespace verbena::transfer {
namespace {

constexpr std::size_t kBlock = 4096;  // of a hole

std::string boot_id() {
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  std::string id;
  std::getline(file, id);
  return id;
}

/// The name of what is incomplete: of any path, of one length.
std::string hidden_name(const std::string& path, const char* suffix) {
  std::string name;
  for (const std::uint8_t byte : hash_of(std::as_bytes(std::span{path}))) {
    name += fmt::format("{:02x}", byte);
  }
  return name + suffix;
}

std::vector<std::byte> read_all(int fd, const std::string& path) {
  std::vector<std::byte> bytes;
  std::vector<std::byte> piece(1 << 16);
  while (true) {
    const ssize_t count = read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(fmt::format("{}: the journal", printable(path)));
    if (count == 0) return bytes;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
  }
}

void remove_name(int folder, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) throw_errno(name);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

PartFile::PartFile(Folder& folder, const Entry& entry, std::uint32_t chunk_size)
    : folder_{folder},
      entry_{entry},
      chunks_{entry.size, chunk_size},
      part_name_{hidden_name(entry.path, ".part")},
      journal_name_{hidden_name(entry.path, ".journal")} {
  if (chunks_.count() > kMostChunks) {
    throw_errno(fmt::format("{}: {} bytes", printable(entry.path), entry.size), EFBIG);
  }
  states_.resize(chunks_.count(), State::absent);
  leaves_.resize(chunks_.count());
  const JournalHeader header{.size = entry.size,
                             .chunk_size = chunk_size,
                             .seconds = entry.seconds,
                             .nanoseconds = entry.nanoseconds,
                             .device = entry.device,
                             .inode = entry.inode,
                             .path = entry.path,
                             .boot = boot_id()};
  if (!resume(header)) begin(header);
}

bool PartFile::resume(const JournalHeader& wanted) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
  part_ = Descriptor{openat(folder_.hidden(), part_name_.c_str(), kFlags)};
  journal_ = Descriptor{openat(folder_.hidden(), journal_name_.c_str(), kFlags | O_APPEND)};
  if (!part_ || !journal_) return false;
  const auto journal = read_journal(read_all(journal_.get(), entry_.path));
  struct stat status {};
  if (!journal || journal->header.path != wanted.path || fstat(part_.get(), &status) != 0)
    return false;
  if (!journal->header.same_source(wanted)) {
    note_ = "the source has changed since the broken run: it is sent anew";
    return false;
  }
  if (journal->header.chunk_size != wanted.chunk_size ||
      static_cast<std::uint64_t>(status.st_size) != wanted.size) {
    return false;
  }
  for (const auto& [chunk, hash] : journal->chunks) {
    if (chunk >= chunks_.count()) return false;
    states_[chunk] = State::present;
    leaves_[chunk] = hash;
    ++present_count_;
  }
  resumed_ = true;
  if (ftruncate(journal_.get(), static_cast<off_t>(journal->valid_size)) != 0) {
    throw_errno(fmt::format("{}: the journal", printable(entry_.path)));
  }
  // After a crash of the system, the journal may have reached the disk before the bytes.
  if (journal->header.boot != wanted.boot) verify_claims();
  note_ = fmt::format("continues with {} of {} chunks", present_count_.load(), chunks_.count());
  return true;
}

void PartFile::begin(const JournalHeader& header) {
  discard(folder_, entry_.path);
  std::ranges::fill(states_, State::absent);
  present_count_ = 0;
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  part_ = Descriptor{openat(folder_.hidden(), part_name_.c_str(), kFlags, 0600)};
  if (!part_) throw_errno(printable(entry_.path));
  if (ftruncate(part_.get(), static_cast<off_t>(entry_.size)) != 0) {
    const int code = errno;
    discard(folder_, entry_.path);
    throw_errno(fmt::format("{}: {} bytes", printable(entry_.path), entry_.size), code);
  }
  if (chunks_.count() <= 1) return;  // nothing to continue from
  journal_ = Descriptor{openat(folder_.hidden(), journal_name_.c_str(), kFlags | O_APPEND, 0600)};
  if (!journal_) throw_errno(fmt::format("{}: the journal", printable(entry_.path)));
  append(encode_journal_header(header));
}

void PartFile::verify_claims() {
  std::vector<std::byte> bytes(chunks_.chunk_size);
  for (std::uint64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
    if (states_[chunk] != State::present) continue;
    const std::size_t length = chunks_.length(chunk);
    const ssize_t count =
        pread(part_.get(), bytes.data(), length, static_cast<off_t>(chunks_.offset(chunk)));
    if (count == static_cast<ssize_t>(length) &&
        hash_of(std::span{bytes}.first(length)) == leaves_[chunk]) {
      continue;
    }
    append(encode_journal_record(chunk, std::nullopt));
    states_[chunk] = State::absent;
    --present_count_;
  }
}

std::vector<Hash> PartFile::hashes() const {
  const std::lock_guard guard{lock_};
  std::vector<Hash> result(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (states_[i] == State::present) result[i] = leaves_[i];
  }
  return result;
}

void PartFile::claim(std::uint64_t chunk, std::size_t length) {
  const std::lock_guard guard{lock_};
  if (chunk >= chunks_.count() || chunks_.length(chunk) != length) {
    throw Malformed{fmt::format("{}: the sender's chunk {} of {} bytes is none of this file",
                                printable(entry_.path), chunk, length)};
  }
  if (states_[chunk] == State::writing) {
    throw Malformed{
        fmt::format("{}: the sender wrote chunk {} twice at once", printable(entry_.path), chunk)};
  }
  if (states_[chunk] == State::present) {
    if (journal_) append(encode_journal_record(chunk, std::nullopt));
    --present_count_;
  }
  states_[chunk] = State::writing;
}

void PartFile::settle(std::uint64_t chunk, const Hash& hash) {
  const std::lock_guard guard{lock_};
  if (journal_) append(encode_journal_record(chunk, hash));
  states_[chunk] = State::present;
  leaves_[chunk] = hash;
  ++present_count_;
}

void PartFile::append(const std::vector<std::byte>& record) const {
  const ssize_t count = write(journal_.get(), record.data(), record.size());
  if (count == static_cast<ssize_t>(record.size())) return;
  throw_errno(fmt::format("{}: the journal", printable(entry_.path)), count < 0 ? errno : ENOSPC);
}

void PartFile::store(std::uint64_t chunk, std::span<const std::byte> bytes, const Hash& hash) {
  claim(chunk, bytes.size());
  if (entry_.sparse != 0) {
    write_sparsely(chunks_.offset(chunk), bytes);
  } else {
    write_bytes(chunks_.offset(chunk), bytes);
  }
  settle(chunk, hash);
}

void PartFile::store_holes(std::uint64_t first, std::uint64_t count) {
  if (first > chunks_.count() || count > chunks_.count() - first) {
    throw Malformed{fmt::format("{}: the sender names holes that are none of this file",
                                printable(entry_.path))};
  }
  const Hash whole = hash_of_zeros(chunks_.chunk_size);
  for (std::uint64_t chunk = first; chunk < first + count; ++chunk) {
    const std::uint32_t length = chunks_.length(chunk);
    claim(chunk, length);
    if (resumed_) make_hole(chunks_.offset(chunk), length);
    settle(chunk, length == chunks_.chunk_size ? whole : hash_of_zeros(length));
  }
}

void PartFile::write_bytes(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        pwrite(part_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(printable(entry_.path));
    if (count == 0) throw_errno(printable(entry_.path), ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

/// Blocks of zeros stay holes.
void PartFile::write_sparsely(std::uint64_t offset, std::span<const std::byte> bytes) const {
  if (resumed_) make_hole(offset, bytes.size());
  while (!bytes.empty()) {
    std::size_t end = 0;
    const auto block = [&](std::size_t at) {
      return bytes.subspan(at, std::min(kBlock, bytes.size() - at));
    };
    const bool zero = all_zero(block(0));
    while (end < bytes.size() && all_zero(block(end)) == zero) end += block(end).size();
    if (!zero) write_bytes(offset, bytes.first(end));
    bytes = bytes.subspan(end);
    offset += end;
  }
}

void PartFile::make_hole(std::uint64_t offset, std::uint64_t length) const {
  if (fallocate(part_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(length)) == 0) {
    return;
  }
  if (errno != EOPNOTSUPP) throw_errno(printable(entry_.path));
  write_bytes(offset, std::vector<std::byte>(length));
}

std::string PartFile::problem_with(const Hash& root) const {
  const std::lock_guard guard{lock_};
  const auto missing = std::ranges::count_if(states_, [](State s) { return s != State::present; });
  if (missing > 0) return fmt::format("{} of {} chunks are missing", missing, chunks_.count());
  return root_of(chunks_, leaves_) == root ? "" : "the hash over all chunks is another one";
}

void PartFile::place(const Place& place, bool replace, bool sync) {
  set_attributes(part_.get(), entry_, entry_.path);
  if (sync && fsync(part_.get()) != 0)
    throw_errno(fmt::format("{}: fsync", printable(entry_.path)));
  folder_.move_into_place(part_name_, place, replace);
  journal_ = Descriptor{};
  if (chunks_.count() > 1) remove_name(folder_.hidden(), journal_name_);
}

void PartFile::discard() {
  part_ = Descriptor{};
  journal_ = Descriptor{};
  discard(folder_, entry_.path);
}

void PartFile::discard(Folder& folder, const std::string& path) {
  // The journal first: alone it would claim what isn't there.
  remove_name(folder.hidden(), hidden_name(path, ".journal"));
  remove_name(folder.hidden(), hidden_name(path, ".part"));
}

}  // namespace verbena::transfer
