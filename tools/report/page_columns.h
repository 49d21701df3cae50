#pragma once

// A model as bytes that the page reads: JSON for what there is little of, a column of numbers for
// each field of events and requests.
//
//   u32 length of the JSON, JSON, columns one after the other
//
// The JSON says where each column begins. A column is bytes, or LEB128 numbers; signed ones are
// zigzag. page/columns.js reads them.

#include <cstdint>
#include <vector>

#include "tools/report/model.h"

namespace verbena::report {

[[nodiscard]] std::vector<std::uint8_t> columns_of(const Model& model);

}  // namespace verbena::report
