// HLO text: reading gives a module or a FormatError, and what is read can be written and read
// again.

#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "lagom/hlo/proto_reader.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/text_writer.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const lagom::hlo::Module module = lagom::hlo::read_hlo_text(text, "fuzz");
    const std::string written = lagom::hlo::write_hlo_text(module);
    const lagom::hlo::Module again = lagom::hlo::read_hlo_text(written, "written");
    if (lagom::hlo::write_hlo_text(again) != written) std::abort();
    try {
      lagom::hlo::read_hlo_proto(lagom::hlo::write_hlo_proto(module), "written");
      lagom::hlo::verify(module, "fuzz");
    } catch (const std::invalid_argument&) {  // a constant without values
    }
  } catch (const lagom::FormatError& e) {
    if (std::string_view(e.what()).starts_with("written")) std::abort();
  }
  return 0;
}
