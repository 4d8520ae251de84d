// SPDX-License-Identifier: Apache-2.0
// For the target whose precompiled headers the tests share.
