/* SPDX-License-Identifier: Apache-2.0 */
/* Another translation unit with holdfast.hpp: what it defines must be one thing in the program. */
#include <holdfast.hpp>

bool is_lost_elsewhere(const std::error_code &code)
{
    return code == holdfast::errc::lost && code.category() == holdfast::category();
}
