#include "tools/transfer/journal.h"

#include <algorithm>

#include "tools/transfer/messages.h"

namespace verbena::transfer {
namespace {

constexpr std::uint32_t kJournalMagic = 0x5642'4a31;  // "VBJ1"
constexpr std::uint64_t kStruckOut = std::uint64_t{1} << 63;
constexpr std::size_t kCheckSize = 8;

void put_check(Writer& writer) {
  const Hash hash = hash_of(writer.bytes);
  for (std::size_t i = 0; i < kCheckSize; ++i) writer(hash[i]);
}

/// The check at the end is that of what comes before it.
bool is_whole(std::span<const std::byte> bytes) {
  const auto text = bytes.first(bytes.size() - kCheckSize);
  const Hash hash = hash_of(text);
  return std::ranges::equal(bytes.last(kCheckSize), std::span{hash}.first(kCheckSize),
                            [](std::byte a, std::uint8_t b) { return a == std::byte{b}; });
}

}  // namespace

std::vector<std::byte> encode_journal_header(const JournalHeader& header) {
  Writer body;
  JournalHeader copy = header;
  copy.fields(body);
  Writer whole;
  whole(kJournalMagic);
  whole.put(body.bytes.size(), 4);
  whole.bytes.insert(whole.bytes.end(), body.bytes.begin(), body.bytes.end());
  put_check(whole);
  return std::move(whole.bytes);
}

std::vector<std::byte> encode_journal_record(std::uint64_t chunk, const std::optional<Hash>& hash) {
  Writer record;
  record(hash ? chunk : chunk | kStruckOut);
  record(hash.value_or(Hash{}));
  put_check(record);
  return std::move(record.bytes);
}

std::optional<Journal> read_journal(std::span<const std::byte> bytes) {
  Journal journal;
  try {
    Reader front{bytes};
    if (front.get(4) != kJournalMagic) return std::nullopt;
    const std::size_t header_size = 8 + front.get(4) + kCheckSize;
    if (header_size > bytes.size() || !is_whole(bytes.first(header_size))) return std::nullopt;
    Reader body{bytes.subspan(8, header_size - 8 - kCheckSize)};
    journal.header.fields(body);
    journal.valid_size = header_size;
  } catch (const Malformed&) {
    return std::nullopt;
  }
  while (bytes.size() - journal.valid_size >= kJournalRecordSize) {
    const auto record = bytes.subspan(journal.valid_size, kJournalRecordSize);
    if (!is_whole(record)) break;
    Reader fields{record};
    const std::uint64_t chunk = fields.get(8);
    Hash hash{};
    fields(hash);
    if ((chunk & kStruckOut) != 0) {
      journal.chunks.erase(chunk & ~kStruckOut);
    } else {
      journal.chunks[chunk] = hash;
    }
    journal.valid_size += kJournalRecordSize;
  }
  return journal;
}

}  // namespace verbena::transfer
