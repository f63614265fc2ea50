#include "lagom/tune/offspring.h"

#include <algorithm>

namespace lagom::tune {

using rewrite::Configuration;

Configuration random_configuration(SearchSession& session) {
  Configuration configuration;
  std::geometric_distribution<int> extra(0.2);
  const int count = 1 + extra(session.random());
  for (int i = 0; i < count; ++i) session.space().mutate(configuration, session.random());
  return configuration;
}

Configuration offspring(SearchSession& session) {
  std::vector<const Trial*> parents = session.measured_trials();
  if (parents.empty()) return random_configuration(session);
  parents.resize(std::min<size_t>(parents.size(), 6));
  std::mt19937_64& random = session.random();
  std::uniform_int_distribution<size_t> pick(0, parents.size() - 1);
  // The better of two draws: selection pressure without losing variety.
  const size_t first = pick(random), second = pick(random);
  const Trial& mother = *parents[std::min(first, second)];
  const Trial& father = *parents[pick(random)];
  Configuration child = mother.configuration;
  std::bernoulli_distribution coin(0.5);
  const SearchSpace& space = session.space();
  for (const Kernel& kernel : space.kernels()) {
    if (!kernel.rules.empty() && coin(random)) {
      space.set_form(child, kernel, space.form_of(father.configuration, kernel));
    }
  }
  const int changes = coin(random) ? 1 : 2;
  for (int i = 0; i < changes; ++i) space.mutate(child, random);
  return child;
}

}  // namespace lagom::tune
