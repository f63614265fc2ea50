// Configurations: any text gives a configuration whose text form reads back as itself, or an error;
// applying it to a program gives a valid program or says what does not fit.

#include "lagom/rewrite/configuration.h"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "lagom/hlo/text_reader.h"
#include "lagom/hlo/verifier.h"
#include "lagom/util/error.h"

namespace {

constexpr char kProgram[] = R"(HloModule m
ENTRY e {
  x = f32[1,8,8,16]{3,2,1,0} parameter(0)
  k = f32[3,3,1,16]{3,2,1,0} parameter(1)
  w = f32[16,4]{1,0} parameter(2)
  c = f32[1,8,8,16]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16
  r = f32[64,16]{1,0} reshape(c)
  ROOT d = f32[64,4]{1,0} dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lagom::rewrite::Configuration;
  static const lagom::hlo::Module module = lagom::hlo::read_hlo_text(kProgram, "program");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Configuration configuration = Configuration::from_string(text);
    const std::string form = configuration.to_string();
    if (Configuration::from_string(form).to_string() != form) std::abort();
    lagom::hlo::verify(lagom::rewrite::apply(module, configuration), "tuned");
  } catch (const lagom::FormatError& e) {
    if (std::string_view(e.what()).starts_with("tuned")) std::abort();
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
