// `verbena top`: what processes, queue pairs and devices do, live.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "settings/settings.h"
#include "tools/top/json.h"
#include "tools/top/looks.h"
#include "tools/top/pages.h"
#include "tools/top/terminal.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/library_view.h"
#include "tools/verbena/looking.h"

namespace verbena::tool {
namespace {

using top::View;

View view_named(const std::string& name) {
  if (name == "queue-pairs") return View::queue_pairs;
  return name == "devices" ? View::devices : View::processes;
}

/// Empty: fine.
std::string problem_of_sort(const std::string& title) {
  if (title.empty()) return "";
  std::vector<std::string_view> titles;
  for (const View view : {View::processes, View::queue_pairs, View::devices}) {
    const top::Table table = table_of(view, {});
    if (column_named(table, title) < table.columns.size()) return "";
    for (const top::Column& column : table.columns) {
      const bool known = std::ranges::find(titles, column.title) != titles.end();
      if (!known) titles.push_back(column.title);
    }
  }
  return fmt::format("--sort: no table has a column \"{}\"; there are {}", title,
                     fmt::join(titles, ", "));
}

// ---- once

top::Pair look_twice(double interval) {
  top::Pair looks{.now = look()};
  std::this_thread::sleep_for(std::chrono::duration<double>{interval});
  looks.before = std::move(looks.now);
  looks.now = look();
  return looks;
}

/// The column to sort by: another one, where this view has none of that title.
std::size_t column_of(const top::Table& table, const std::string& title) {
  const std::size_t column = column_named(table, title);
  return column < table.columns.size() ? column : first_column(table);
}

void print_view(View view, const top::Pair& looks, const TopOptions& options) {
  top::Table table = table_of(view, looks);
  if (!options.filter.empty()) filter(table, options.filter);
  sort(table, column_of(table, options.sort), top::Order::falling);
  const top::Layout layout = layout_of(table, 0);
  fmt::print("\n{}\n", head_line(table, layout));
  for (const top::Row& row : table.rows) fmt::print("{}\n", line(table, layout, row));
}

void print_once(const TopOptions& options) {
  const top::Pair looks = look_twice(options.interval);
  if (options.json) {
    fmt::print("{}\n", as_json(looks).dump(2));
  } else {
    fmt::print("{}\n{}\n", count_line(looks.now), sum_line(looks));
    if (!options.view.empty()) {
      print_view(view_named(options.view), looks, options);
    } else {
      for (const View view : {View::processes, View::queue_pairs, View::devices}) {
        print_view(view, looks, options);
      }
    }
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error{"can't write to standard output"};
}

// ---- live

/// How it ended: 0 by a key, or the signal.
int show_live(const TopOptions& options) {
  top::Pages pages{view_named(options.view), options.interval};
  pages.sort_by(options.sort);
  pages.filter_by(options.filter);
  top::Terminal terminal;
  top::Looks looks{look, options.interval};
  top::Pair shown;
  for (;;) {
    const auto woken = terminal.wait(looks.fd());
    if (woken.ended_by != 0) return woken.ended_by;
    if (woken.gone) return SIGHUP;
    for (const top::Key& key : woken.keys) {
      if (key.kind == top::Key::Kind::suspend) terminal.suspend();
      if (key.kind == top::Key::Kind::redraw) terminal.forget();
      if (pages.handle(key) == top::Pages::Outcome::quit) return 0;
    }
    if (woken.resized) terminal.forget();
    if (woken.descriptor) {
      top::Pair newest = looks.last();
      if (!pages.paused()) shown = std::move(newest);
    }
    looks.set_interval(pages.paused() ? 0 : pages.interval());
    if (!terminal.show(pages.draw(shown, top::Terminal::size()))) return SIGHUP;
  }
}

/// As if the signal had not been taken.
void end_by(int number) {
  std::signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
}

}  // namespace

int top(const TopOptions& options, char** argv) {
  const auto problems = settings::read_environment(environ).problems;
  if (!problems.empty()) return fail("top", kExitUsage, problems.front());
  const std::string sort = problem_of_sort(options.sort);
  if (!sort.empty()) return fail("top", kExitUsage, sort);
  const std::string problem = options.once ? "" : top::terminal_problem();
  if (!problem.empty()) {
    return fail("top", kExitUsage, fmt::format("{}: use verbena top --once", problem));
  }
  try {
    enter_library_view(argv);
    if (options.once) {
      print_once(options);
    } else if (const int number = show_live(options); number != 0) {
      end_by(number);
    }
    return 0;
  } catch (const std::exception& error) {
    return fail("top", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
