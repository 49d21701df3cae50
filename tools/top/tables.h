#pragma once

// The three tables, each with the rates between two looks.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/top/rates.h"
#include "tools/top/table.h"

namespace verbena::top {

enum class View : std::uint8_t { processes, queue_pairs, devices };

/// In the order of process, then of device or queue pair.
[[nodiscard]] Table table_of(View view, const Pair& looks);

/// The column that a view is sorted by at first.
[[nodiscard]] std::size_t first_column(const Table& table);

/// The column of that title, in any case ("sent/s"); as many as there are: none.
[[nodiscard]] std::size_t column_named(const Table& table, std::string_view title);

/// Keys of rows, and of our devices' ports: those of all processes are one.
[[nodiscard]] std::string key_of(const Process& process, const QueuePair& pair);
[[nodiscard]] std::string key_of(const Process& process, const Port& port);
[[nodiscard]] std::string key_of(const Port& port);
[[nodiscard]] std::map<std::string, Port> our_ports(const Sample& sample);

/// Everything about a row: lines "name: value", then each counter that isn't 0, with its rate.
struct Details {
  std::string title;  // empty: what has the key is gone
  std::vector<std::pair<std::string, std::string>> facts;
  Table counters{};
};
[[nodiscard]] Details details_of(View view, const std::string& key, const Pair& looks);

/// Above the tables: how much there is, and the sums of all ports of our devices.
[[nodiscard]] std::string count_line(const Sample& now);
[[nodiscard]] std::string sum_line(const Pair& looks);

}  // namespace verbena::top
