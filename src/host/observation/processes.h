#pragma once

#include <string>

namespace verbena::host {

/// The processes of this user and network namespace that have a NIC, and what each has counted, as
/// a JSON list. One that is stopped is in it without its counters, after a moment's patience.
[[nodiscard]] std::string processes_as_json();
/// The same with their queue pairs. A process with many of them has "parts", which list the rest.
[[nodiscard]] std::string activity_as_json();

}  // namespace verbena::host
