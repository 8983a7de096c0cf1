#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/sha256.h"

static void check(const void *data, size_t len, size_t piece, const char *want)
{
    struct sha256 s;
    unsigned char d[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE];

    sha256_init(&s);
    for (size_t i = 0; i < len; i += piece)
        sha256_add(&s, (const char *)data + i, len - i < piece ? len - i : piece);
    sha256_end(&s, d);
    sha256_hex(d, hex);
    assert_string_equal(hex, want);
}

/* The examples of FIPS 180-4's companion document. */
static void test_vectors(void **state)
{
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *a = malloc(1000000);

    (void)state;
    assert_non_null(a);
    memset(a, 'a', 1000000);
    check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece <= 56; piece += 11)
        check(two, 56, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    for (size_t piece = 1000000; piece > 60; piece /= 7)
        check(a, 1000000, piece, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_vectors) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
