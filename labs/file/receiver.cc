// The receiver: steps 2, 4 and 6.

#include <optional>

#include "labs/common/temporary_folder.h"
#include "labs/file/digest.h"
#include "labs/file/landing.h"
#include "labs/file/mailbox.h"
#include "labs/file/secret.h"
#include "labs/file/settings.h"

namespace {

namespace fs = std::filesystem;

/// 2. Is it welcome? Then memory for it, and the right to write there.
void check_offer(const wire::Offer& offer) {
  if (!is_plain_name(offer.name))
    throw Refused{fmt::format("\"{}\" can't be the name of a file here", offer.name)};
  if (offer.length > settings.most) {
    throw Refused{fmt::format("{} bytes are more than the {} allowed here; raise --most",
                              offer.length, settings.most)};
  }
}

/// 4. The file, when the sender says so and the hash agrees.
std::vector<std::byte> take_file(rdma::Connection& connection, Mailbox& mail,
                                 const wire::Offer& offer) {
  check_offer(offer);
  std::vector<std::byte> bytes(std::max<std::size_t>(offer.length, 1));  // a region of 0 can't be
  std::optional<rdma::MemoryRegion> region{std::in_place, connection.pd(), std::span{bytes},
                                           rdma::Access::remote_write};
  mail.send(wire::Grant{region->remote().addr, offer.length, region->rkey()});
  const auto done = mail.receive<wire::Done>();
  region.reset();  // what is hashed now can't change any more, whatever the sender still sends
  bytes.resize(offer.length);
  if (done.written != offer.length) {
    throw Refused{fmt::format("truncated: got {} bytes instead of {}; send it again", done.written,
                              offer.length)};
  }
  if (const wire::Hash hash = Digest{}.add(bytes).result(); hash != offer.hash) {
    throw Refused{fmt::format("wrong hash: {}… instead of {}…; send it again", brief(hash),
                              brief(offer.hash))};
  }
  return bytes;
}

/// 6. Who has sent a good file is told a secret that was made here, and proves to have it.
void tell_secret(Mailbox& mail) {
  const auto id = mail.receive<wire::Id>();
  const wire::Hash secret = make_secret();
  mail.send(wire::Secret{secret});
  lab::check(mail.receive<wire::Proof>().value == proof_of(secret, id.number),
             "the proof of {} doesn't fit the secret", id.number);
  lab::say("the secret for {} is {}…; the sender has proved to have it", id.number, brief(secret));
}

void receive_file(rdma::Connection& connection, Mailbox& mail, const fs::path& folder) {
  const auto offer = mail.receive<wire::Offer>();
  lab::say("offered: \"{}\", {} bytes, SHA-256 {}…", offer.name, offer.length, brief(offer.hash));
  try {
    land(folder, offer.name, take_file(connection, mail, offer));
  } catch (const Refused& refused) {
    mail.send(wire::Verdict{0, refused.what()});
    throw;
  }
  mail.send(wire::Verdict{1, "kept"});
  lab::say("kept as {}", (folder / offer.name).string());
  tell_secret(mail);
}

}  // namespace

void receiver(const lab::Options& options) {
  std::optional<lab::TemporaryFolder> temporary;
  if (settings.into.empty()) temporary.emplace();
  const fs::path folder = temporary ? temporary->path() : fs::path{settings.into};
  rdma::Listener listener = lab::listen(options);
  rdma::ConnectionRequest request = lab::next_request(options, listener);
  rdma::Connection connection = lab::accept(options, request, Mailbox::connection_options());
  Mailbox mail{connection, options};
  std::string why;
  try {
    lab::Work work;
    for (std::uint64_t i = 0; i < options.iters; ++i) receive_file(connection, mail, folder);
    work.done({.round_trips = mail.received()});
    lab::wait_for_goodbye(options, connection);
  } catch (const std::exception& failure) {
    why = failure.what();
    if (settings.broken == Break::nothing) throw;
  }
  if (settings.broken == Break::nothing) return;
  lab::check(!why.empty(), "the file was kept although it was broken on purpose");
  lab::say("refused: {}", why);
  lab::check(!temporary || fs::is_empty(folder), "something is left in {}", folder.string());
  lab::shown("a broken transfer was refused, nothing kept: {}", why.substr(0, why.find(';')));
}
