#include "tools/transfer/question.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <array>
#include <cstdint>
#include <cstdio>

#include "tools/transfer/names.h"

namespace verbena::transfer {

Answer answer_from(const std::string& line) {
  const std::string word = line.substr(0, line.find_last_not_of(" \r\n") + 1);
  if (word == "y" || word == "yes") return Answer::yes;
  if (word == "n" || word == "no") return Answer::no;
  if (word == "a" || word == "all") return Answer::all;
  if (word == "s" || word == "skip all") return Answer::none;
  return Answer::unclear;
}

Question::Question() : event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
  if (!event_) throw_errno("eventfd");
}

bool Question::ask(const std::string& path) {
  std::unique_lock guard{lock_};
  if (all_ || none_ || ended_) return all_ && !ended_;
  path_ = path;
  open_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  changed_.wait(guard, [&] { return !open_ || ended_; });
  return answer_ && !ended_;
}

void Question::end() {
  {
    const std::lock_guard guard{lock_};
    ended_ = true;
  }
  changed_.notify_all();
}

bool Question::open() const {
  const std::lock_guard guard{lock_};
  return open_;
}

void Question::show() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof count);
  const std::lock_guard guard{lock_};
  if (!open_) return;
  std::fputs(fmt::format("{} is there already and differs. Overwrite it? y, n, a (all), s (skip "
                         "all): ",
                         printable(path_))
                 .c_str(),
             stderr);
}

void Question::read_answer() {
  std::array<char, 256> line{};
  const ssize_t size = read(STDIN_FILENO, line.data(), line.size());
  const Answer answer = size > 0 ? answer_from({line.data(), static_cast<std::size_t>(size)})
                                 : Answer::none;  // nobody is there to ask
  if (answer == Answer::unclear) return show();
  {
    const std::lock_guard guard{lock_};
    all_ = answer == Answer::all;
    none_ = answer == Answer::none;
    answer_ = answer == Answer::yes || all_;
    open_ = false;
  }
  changed_.notify_all();
}

}  // namespace verbena::transfer
