// HLO protos: reading gives a module or a FormatError; a module survives being written and read in
// both forms.

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
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const lagom::hlo::Module module = lagom::hlo::read_hlo_proto(bytes, "fuzz");
    const std::string text = lagom::hlo::write_hlo_text(module);
    const std::string written = lagom::hlo::write_hlo_proto(module);
    try {
      lagom::hlo::read_hlo_proto(written, "written");
      lagom::hlo::read_hlo_text(text, "written");
    } catch (const lagom::FormatError&) {
      std::abort();
    }
    lagom::hlo::verify(module, "fuzz");
  } catch (const lagom::FormatError&) {
  } catch (const std::invalid_argument&) {  // a constant without values
  }
  return 0;
}
