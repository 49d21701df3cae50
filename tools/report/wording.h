#pragma once

// Numbers and names of the trace as people read them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/report/model.h"

namespace verbena::report {

/// "64 B", "4 KiB", "1.5 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// "0.8 µs", "73 µs", "50.3 ms".
[[nodiscard]] std::string duration_text(Time time);

/// "1 packet", "2 packets".
[[nodiscard]] std::string count_text(std::uint64_t count, std::string_view what);

/// A wr_id in decimal; one that a program makes of bits, or of a pointer, in hexadecimal.
[[nodiscard]] std::string id_text(const std::string& wr_id);

/// Why a frame was dropped: "wrong Q_Key". `counter` is its counter's name.
[[nodiscard]] std::string drop_word(std::string_view counter);

/// … with the counter's name: "wrong Q_Key (drop_qkey)".
[[nodiscard]] std::string drop_text(std::string_view counter);

/// Why a requester goes back, by the cause in a trace: "receiver not ready".
[[nodiscard]] std::string retry_text(std::string_view cause);

/// "rping 4711", "not traced"; empty: there is no such end.
[[nodiscard]] std::string program_text(const End& end);

/// "QP 0x0001a2", "SRQ 1", "multicast group", "QP unknown"; empty: there is no such end.
[[nodiscard]] std::string number_text(const End& end);

}  // namespace verbena::report
