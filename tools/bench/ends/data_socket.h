#pragma once

// The TCP connection that is measured: a second one to the server's port, beside the control
// connection, which names it.

#include "tools/bench/ends/ends.h"

namespace verbena::bench {

[[nodiscard]] Socket accept_data_socket(Meeting& meeting);
[[nodiscard]] Socket connect_data_socket(Meeting& meeting);

}  // namespace verbena::bench
