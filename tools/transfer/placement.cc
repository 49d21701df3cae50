#include "tools/transfer/placement.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>

#include "tools/transfer/names.h"

namespace verbena::transfer {
namespace {

constexpr std::size_t kMostOpen = 256;

/// The other files would meet with the same.
bool stops_everything(int code) {
  constexpr std::array kCodes{ENOSPC, EDQUOT, EIO, EROFS, ENOMEM, EMFILE, ENFILE};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

bool same_time(const struct stat& status, const Entry& entry) {
  return status.st_mtim.tv_sec == entry.seconds &&
         static_cast<std::uint32_t>(status.st_mtim.tv_nsec) == entry.nanoseconds;
}

std::vector<Hash> hashes_of(int fd, const Chunks& chunks, const std::string& path) {
  std::vector<Hash> hashes;
  std::vector<std::byte> bytes(chunks.chunk_size);
  for (std::uint64_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const std::size_t length = chunks.length(chunk);
    std::size_t have = 0;
    while (have < length) {
      const ssize_t count = pread(fd, bytes.data() + have, length - have,
                                  static_cast<off_t>(chunks.offset(chunk) + have));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_errno(printable(path));
      if (count == 0) break;  // shorter now: another hash
      have += static_cast<std::size_t>(count);
    }
    hashes.push_back(hash_of(std::span{bytes}.first(have)));
  }
  return hashes;
}

}  // namespace

Placement::Placement(Folder& folder, const PlacementSettings& settings, Tally& tally,
                     Outside outside)
    : folder_{folder},
      settings_{settings},
      tally_{tally},
      outside_{std::move(outside)},
      thread_{[this] { run(); }} {}

Placement::~Placement() {
  {
    const std::lock_guard guard{lock_};
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Placement::add(std::vector<std::byte> message) {
  {
    const std::lock_guard guard{lock_};
    waiting_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void Placement::run() {
  while (true) {
    std::vector<std::byte> message;
    {
      std::unique_lock guard{lock_};
      changed_.wait(guard, [&] { return ended_ || !waiting_.empty(); });
      if (ended_) return;
      message = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      handle(message);
    } catch (const std::exception& problem) {
      return outside_.broken(problem.what());
    }
  }
}

void Placement::handle(std::span<const std::byte> message) {
  switch (type_of(message)) {
    case MessageType::entry:
      return handle(decode<Entry>(message));
    case MessageType::holes:
      return handle(decode<Holes>(message));
    case MessageType::differs:
      return handle(decode<Differs>(message));
    case MessageType::finish:
      return handle(decode<Finish>(message));
    case MessageType::give_up:
      return handle(decode<GiveUp>(message));
    case MessageType::done:
      return handle_done();
    default:
      throw Malformed{"the sender sent a message that only a receiver sends"};
  }
}

std::shared_ptr<Placement::Incoming> Placement::incoming(std::uint64_t id) {
  const std::lock_guard guard{lock_};
  const auto found = open_.find(id);
  return found == open_.end() ? nullptr : found->second;
}

std::shared_ptr<PartFile> Placement::find(std::uint64_t id) {
  const auto found = incoming(id);
  return found == nullptr ? nullptr : found->part;
}

bool Placement::forget(std::uint64_t id) {
  const std::lock_guard guard{lock_};
  return open_.erase(id) > 0;
}

void Placement::failed(std::uint64_t id, const std::exception& why) {
  const auto* const system = dynamic_cast<const std::system_error*>(&why);
  if (system != nullptr && stops_everything(system->code().value())) {
    return outside_.broken(fmt::format("the receiver can't store {}", why.what()));
  }
  if (forget(id)) result(id, Outcome::failed, why.what());
}

void Placement::result(std::uint64_t id, Outcome outcome, const std::string& text) {
  switch (outcome) {
    case Outcome::placed:
      ++tally_.placed;
      break;
    case Outcome::identical:
      ++tally_.identical;
      break;
    case Outcome::skipped:
      ++tally_.skipped;
      break;
    case Outcome::failed:
      ++tally_.failed;
      break;
  }
  tell(Result{.id = id, .outcome = static_cast<std::uint8_t>(outcome), .text = text});
}

void Placement::handle(const Entry& entry) {
  {
    const std::lock_guard guard{lock_};
    if (open_.contains(entry.id)) throw Malformed{"the sender uses the id of an entry twice"};
    if (open_.size() >= kMostOpen) throw Malformed{"the sender has too many entries open"};
  }
  if (entry.size > static_cast<std::uint64_t>(LLONG_MAX) || entry.nanoseconds > 999'999'999) {
    throw Malformed{
        fmt::format("the sender names {} bytes, {} nanoseconds", entry.size, entry.nanoseconds)};
  }
  try {
    Place place = folder_.place_of(entry.path);
    switch (static_cast<Kind>(entry.kind)) {
      case Kind::directory:
        return receive_folder(entry, place);
      case Kind::link:
        return receive_link(entry, place);
      case Kind::file:
        return receive_file(entry, std::move(place));
    }
    throw Malformed{fmt::format("the sender sends an entry of kind {}", entry.kind)};
  } catch (const std::system_error& problem) {
    if (stops_everything(problem.code().value())) throw;
    result(entry.id, Outcome::failed, problem.what());
  }
}

void Placement::receive_folder(const Entry& entry, const Place& place) {
  const auto status = Folder::status_of(place);
  if (status && !S_ISDIR(status->st_mode)) {
    return result(entry.id, Outcome::failed, "a file is there already; a folder was sent");
  }
  if (!status && mkdirat(place.folder.get(), place.name.c_str(), 0700) != 0) {
    throw_errno(printable(entry.path));
  }
  folders_.push_back(entry);
  result(entry.id, Outcome::placed);
}

void Placement::receive_link(const Entry& entry, const Place& place) {
  const auto status = Folder::status_of(place);
  if (status && S_ISLNK(status->st_mode)) {
    std::string target(PATH_MAX, '\0');
    const ssize_t size =
        readlinkat(place.folder.get(), place.name.c_str(), target.data(), target.size());
    if (size >= 0) target.resize(static_cast<std::size_t>(size));
    if (target == entry.target) return result(entry.id, Outcome::identical);
  }
  if (status && S_ISDIR(status->st_mode)) {
    return result(entry.id, Outcome::failed, "a folder is there already; a link was sent");
  }
  if (status && !decide(entry)) return;
  if (entry.target.empty() || entry.target.find('\0') != std::string::npos) {
    throw Malformed{"the sender sends a link to nothing"};
  }
  const std::string name = "link";
  unlinkat(folder_.hidden(), name.c_str(), 0);  // of an earlier run
  if (symlinkat(entry.target.c_str(), folder_.hidden(), name.c_str()) != 0) {
    throw_errno(printable(entry.path));
  }
  const std::array times{
      timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
      timespec{.tv_sec = entry.seconds, .tv_nsec = static_cast<long>(entry.nanoseconds)}};
  utimensat(folder_.hidden(), name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  folder_.move_into_place(name, place, status.has_value());
  result(entry.id, Outcome::placed);
}

void Placement::receive_file(const Entry& entry, Place place) {
  const auto status = Folder::status_of(place);
  if (!status) return start(entry, std::move(place), false);
  if (S_ISDIR(status->st_mode)) {
    return result(entry.id, Outcome::failed, "a folder is there already; a file was sent");
  }
  const bool alike = S_ISREG(status->st_mode) && same_time(*status, entry) &&
                     static_cast<std::uint64_t>(status->st_size) == entry.size;
  if (alike && settings_.overwrite != Overwrite::skip) return compare(entry, std::move(place));
  if (decide(entry)) start(entry, std::move(place), true);
}

void Placement::compare(const Entry& entry, Place place) {
  const Descriptor fd{openat(place.folder.get(), place.name.c_str(),
                             O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  if (!fd) throw_errno(printable(entry.path));
  auto incoming = std::make_shared<Incoming>(Incoming{entry, std::move(place), true, nullptr, {}});
  incoming->there = hashes_of(fd.get(), {entry.size, settings_.chunk_size}, entry.path);
  tell_hashes(entry.id, incoming->there);
  {
    const std::lock_guard guard{lock_};
    open_.emplace(entry.id, std::move(incoming));
  }
  tell(Verdict{.id = entry.id, .action = static_cast<std::uint8_t>(Action::compare), .note = ""});
}

void Placement::start(const Entry& entry, Place place, bool replace) {
  auto part = std::make_shared<PartFile>(folder_, entry, settings_.chunk_size);
  const std::string note = part->note();
  if (part->has_any()) tell_hashes(entry.id, part->hashes());
  {
    const std::lock_guard guard{lock_};
    open_.emplace(entry.id, std::make_shared<Incoming>(
                                Incoming{entry, std::move(place), replace, std::move(part), {}}));
  }
  tell(Verdict{.id = entry.id, .action = static_cast<std::uint8_t>(Action::send), .note = note});
}

void Placement::tell_hashes(std::uint64_t id, const std::vector<Hash>& hashes) {
  for (std::size_t first = 0; first < hashes.size(); first += kHashesPerMessage) {
    const std::size_t end = std::min(hashes.size(), first + kHashesPerMessage);
    const auto at = [&](std::size_t i) { return hashes.begin() + static_cast<std::ptrdiff_t>(i); };
    tell(Have{.id = id, .first = first, .hashes = {at(first), at(end)}});
  }
}

bool Placement::decide(const Entry& entry) {
  switch (settings_.overwrite) {
    case Overwrite::force:
      return true;
    case Overwrite::skip:
      result(entry.id, Outcome::skipped, "it is there already, and the receiver keeps it");
      return false;
    case Overwrite::ask:
      if (outside_.may_overwrite(entry.path)) return true;
      result(entry.id, Outcome::skipped, "it is there already, and the receiver keeps it");
      return false;
    case Overwrite::refuse:
      break;
  }
  result(entry.id, Outcome::failed,
         "it is there already and differs; start verbena receive with --force or --skip");
  return false;
}

void Placement::handle(const Holes& holes) {
  const auto part = find(holes.id);
  if (part == nullptr) return;  // it failed meanwhile
  try {
    part->store_holes(holes.first, holes.count);
  } catch (const std::system_error& problem) {
    failed(holes.id, problem);
  }
}

void Placement::handle(const Differs& differs) {
  const auto found = incoming(differs.id);
  if (found == nullptr || found->part != nullptr || !forget(differs.id)) {
    throw Malformed{"the sender compared an entry that wasn't to be compared"};
  }
  if (!decide(found->entry)) return;
  try {
    start(found->entry, std::move(found->place), true);
  } catch (const std::system_error& problem) {
    if (stops_everything(problem.code().value())) throw;
    result(differs.id, Outcome::failed, problem.what());
  }
}

void Placement::finish_compared(const Finish& finish, Incoming& incoming) {
  const Entry& entry = incoming.entry;
  if (root_of({entry.size, settings_.chunk_size}, incoming.there) != finish.root) {
    return result(finish.id, Outcome::failed, "the hash over all chunks is another one");
  }
  PartFile::discard(folder_, entry.path);
  const Descriptor fd{openat(incoming.place.folder.get(), incoming.place.name.c_str(),
                             O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  if (!fd) throw_errno(printable(entry.path));
  set_attributes(fd.get(), entry, entry.path);
  result(finish.id, Outcome::identical);
}

void Placement::handle(const Finish& finish) {
  const auto found = incoming(finish.id);
  if (found == nullptr || !forget(finish.id)) return;  // it failed meanwhile
  try {
    if (found->part == nullptr) return finish_compared(finish, *found);
    if (const auto problem = found->part->problem_with(finish.root); !problem.empty()) {
      found->part->discard();
      return result(finish.id, Outcome::failed, problem);
    }
    found->part->place(found->place, found->replace, settings_.sync);
    result(finish.id, Outcome::placed);
  } catch (const std::system_error& problem) {
    if (stops_everything(problem.code().value())) throw;
    result(finish.id, Outcome::failed, problem.what());
  }
}

void Placement::handle(const GiveUp& give_up) {
  const auto found = incoming(give_up.id);
  if (found == nullptr || !forget(give_up.id)) return;
  if (found->part != nullptr) found->part->discard();
  ++tally_.failed;
}

void Placement::handle_done() {
  for (auto entry = folders_.rbegin(); entry != folders_.rend(); ++entry) {
    const Place place = folder_.place_of(entry->path);
    const Descriptor fd{openat(place.folder.get(), place.name.c_str(),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!fd) throw_errno(printable(entry->path));
    set_attributes(fd.get(), *entry, entry->path);
  }
  tell(Goodbye{});
}

}  // namespace verbena::transfer
