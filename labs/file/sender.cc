// The sender: steps 1, 3, 5 and 7.

#include <signal.h>

#include <fstream>
#include <optional>

#include "labs/common/pattern.h"
#include "labs/common/process.h"
#include "labs/common/temporary_folder.h"
#include "labs/file/digest.h"
#include "labs/file/landing.h"
#include "labs/file/mailbox.h"
#include "labs/file/settings.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDepth = 16;  // pieces in flight

std::ifstream open_file(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  lab::check(fs::is_regular_file(path) && file, "{}: can't be read as a file", path.string());
  return file;
}
std::size_t read_some(std::ifstream& file, std::span<std::byte> room) {
  file.read(reinterpret_cast<char*>(room.data()), static_cast<std::streamsize>(room.size()));
  return static_cast<std::size_t>(file.gcount());
}

/// 1. Length and hash, from a first reading.
wire::Offer describe(const fs::path& path) {
  std::ifstream file = open_file(path);
  wire::Offer offer{.name = path.filename().string()};
  Digest digest;
  std::vector<std::byte> room(1 << 20);
  while (const std::size_t count = read_some(file, room)) {
    offer.length += count;
    digest.add(std::span{room}.first(count));
  }
  offer.hash = digest.result();
  if (settings.broken == Break::hash) offer.hash.front() ^= 1;
  return offer;
}

/// 3. A second reading, a piece at a time, each WRITTEN to its place. A slot of the ring is used
///    again when the piece that was in it has completed. Returns what could be read.
std::uint64_t write_pieces(rdma::Connection& connection, const fs::path& path,
                           const wire::Offer& offer, const rdma::RemoteBuffer& to) {
  std::ifstream file = open_file(path);
  rdma::Buffer ring = connection.buffer(kDepth * settings.piece);
  const bool stops = settings.broken == Break::truncate || settings.broken == Break::die;
  const std::uint64_t end = stops ? offer.length / 2 : offer.length;
  std::uint64_t at = 0, posted = 0, done = 0;
  while (true) {
    const std::size_t slot = posted % kDepth * settings.piece;
    const std::size_t wanted = std::min<std::uint64_t>(settings.piece, end - at);
    const std::size_t count = read_some(file, ring.bytes().subspan(slot, wanted));
    if (count == 0) break;
    rdma::Write write{ring.slice(slot, count), to.slice(at, count)};
    connection.post(write.signaled()).check();
    at += count;
    if (++posted - done == kDepth) connection.wait().check(), ++done;
  }
  if (settings.broken == Break::die) raise(SIGKILL);
  for (; done < posted; ++done) connection.wait().check();
  return at;
}

/// A receiver that refuses at once answers with its verdict instead of a grant.
wire::Grant granted(std::span<const std::byte> answer) {
  if (wire::type_of(answer) != wire::Type::verdict) return wire::decode<wire::Grant>(answer);
  throw Refused{wire::decode<wire::Verdict>(answer).reason};
}

/// Bytes that were copied from the page cache to registered memory.
std::uint64_t send_file(rdma::Connection& connection, Mailbox& mail, const fs::path& path) {
  const wire::Offer offer = describe(path);
  mail.send(offer);
  const wire::Grant grant = granted(mail.next());
  lab::check(grant.length == offer.length, "the receiver grants {} bytes, the file has {}",
             grant.length, offer.length);
  lab::say("may write {} bytes at {:#x} with rkey {:#x}", grant.length, grant.addr, grant.rkey);
  const rdma::RemoteBuffer to{grant.addr, grant.length, grant.rkey};
  mail.send(wire::Done{write_pieces(connection, path, offer, to)});

  // 5. Only the receiver can say that it is good. Then it tells a secret, which it has made.
  const auto verdict = mail.receive<wire::Verdict>();
  if (verdict.good == 0) throw Refused{verdict.reason};
  mail.send(wire::Id{settings.id});
  const auto secret = mail.receive<wire::Secret>();
  // 7. Prove that it has arrived.
  mail.send(wire::Proof{proof_of(secret.value, settings.id)});
  lab::say("sent {} bytes, kept there; the secret for {} is {}…", offer.length, settings.id,
           brief(secret.value));
  return offer.length;
}

void send_files(const lab::Options& options) {
  std::optional<lab::TemporaryFolder> temporary;
  fs::path path = settings.file;
  if (path.empty()) {
    std::vector<std::byte> bytes(options.size);
    lab::fill_pattern(bytes, 1);
    land(temporary.emplace().path(), "generated.bin", bytes);
    path = temporary->path() / "generated.bin";
  }
  rdma::Connection connection = lab::connect(options, Mailbox::connection_options());
  Mailbox mail{connection, options};
  try {
    lab::Work work;
    std::uint64_t copied = 0;
    for (std::uint64_t i = 0; i < options.iters; ++i) copied += send_file(connection, mail, path);
    work.done({.round_trips = mail.received(), .copied = copied});
  } catch (const Refused& refused) {
    if (settings.broken == Break::nothing) {
      throw lab::Failed{fmt::format("the receiver refused: {}", refused.what())};
    }
    lab::say("the receiver refused: {}", refused.what());
    return;
  }
  lab::say_goodbye(options, connection);
  lab::check(settings.broken == Break::nothing, "the receiver kept a file that was broken");
  lab::shown("a file in pieces of {}, hash compared at the other end, then id and secret",
             settings.piece);
}

}  // namespace

/// The process to kill starts before the first verb.
void sender(const lab::Options& options) {
  if (settings.broken != Break::die) return send_files(options);
  const lab::TemporaryFolder folder;  // what the killed one would leave behind
  setenv("TMPDIR", folder.path().c_str(), 1);
  lab::Process victim{[&] {
    try {
      send_files(options);
    } catch (const std::exception& failure) {
      fmt::print(stderr, "client: {}\n", failure.what());
    }
    return 1;
  }};
  lab::check(lab::signal_in(victim.wait()) == strsignal(SIGKILL), "the sender wasn't killed");
  lab::say("the sender was killed in the middle");
}
