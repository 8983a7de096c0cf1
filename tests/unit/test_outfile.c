/* Output files: the old content stays until the new one is complete; nothing temporary is left. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/io/outfile.h"

static char dir[] = "/tmp/test-outfile-XXXXXX";
static char path[64], link_path[64];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/out", dir);
    snprintf(link_path, sizeof link_path, "%s/link", dir);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(link_path);
    return rmdir(dir); /* fails when a temporary file is left */
}

static void check_content(const char *want)
{
    char got[64] = "";
    FILE *f = fopen(path, "r");

    if (!want) {
        assert_null(f);
        return;
    }
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(got, want);
}

static unsigned count_files(void)
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2; /* . and .. */
}

static void test_commit_and_abort(void **state)
{
    struct outfile o, p;
    struct err e;

    (void)state;
    assert_int_equal(outfile_open(&o, path, &e), 0);
    fputs("first", o.f);
    check_content(NULL);
    outfile_abort(&o);
    outfile_abort(&o);
    check_content(NULL);
    assert_int_equal(count_files(), 0);

    assert_int_equal(outfile_open(&o, path, &e), 0);
    assert_int_equal(outfile_open(&p, path, &e), 0); /* two writers do not share a temporary file */
    fputs("second", o.f);
    fputs("third", p.f);
    assert_int_equal(outfile_commit(&o, &e), 0);
    check_content("second");
    assert_int_equal(outfile_commit(&p, &e), 0);
    check_content("third");
    assert_int_equal(count_files(), 1);
}

static void test_rights_and_links(void **state)
{
    struct outfile o;
    struct stat st;
    struct err e;

    (void)state;
    assert_int_equal(outfile_open(&o, path, &e), 0);
    assert_int_equal(outfile_commit(&o, &e), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(symlink("out", link_path), 0);
    assert_int_equal(outfile_open(&o, link_path, &e), 0);
    fputs("through a link", o.f);
    assert_int_equal(outfile_commit(&o, &e), 0);
    check_content("through a link");
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_special(void **state)
{
    struct outfile o;
    struct stat st;
    struct err e;

    (void)state;
    assert_int_equal(outfile_open(&o, "/dev/null", &e), 0);
    assert_null(o.temp);
    fputs("nothing", o.f);
    assert_int_equal(outfile_commit(&o, &e), 0);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(outfile_create(&o, "/dev/null", &e), ERR_INVAL);
    assert_int_equal(outfile_create(&o, "-", &e), ERR_INVAL);
    assert_int_equal(outfile_open(&o, "-", &e), 0);
    assert_ptr_equal(o.f, stdout);
    assert_int_equal(outfile_commit(&o, &e), 0);
    assert_int_equal(outfile_open(&o, NULL, &e), 0);
    outfile_abort(&o);
    assert_int_equal(fileno(stdout), 1); /* still open */
}

static void test_failures(void **state)
{
    struct outfile o;
    struct err e;

    (void)state;
    assert_int_equal(outfile_open(&o, "/nowhere/at/all", &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/nowhere/at/all"));
    assert_non_null(strstr(e.msg, "No such file"));
    assert_int_equal(outfile_open(&o, dir, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "is a folder"));
    if (!access("/dev/full", W_OK)) {
        assert_int_equal(outfile_open(&o, "/dev/full", &e), 0);
        fputs("x", o.f);
        assert_int_equal(outfile_commit(&o, &e), ERR_IO);
        assert_non_null(strstr(e.msg, "No space left"));
    }
    unlink(path);
    assert_int_equal(outfile_open(&o, path, &e), 0);
    fputs("lost", o.f);
    unlink(o.temp);
    assert_int_equal(outfile_commit(&o, &e), ERR_IO);
    check_content(NULL);
}

static void test_create(void **state)
{
    struct outfile o;
    struct err e;
    FILE *f;

    (void)state;
    assert_int_equal(outfile_create(&o, path, &e), 0);
    assert_null(o.f);
    f = fopen(o.temp, "w");
    assert_non_null(f);
    fputs("by name", f);
    fclose(f);
    check_content(NULL);
    assert_int_equal(outfile_commit(&o, &e), 0);
    check_content("by name");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_commit_and_abort), cmocka_unit_test(test_rights_and_links),
                                        cmocka_unit_test(test_special), cmocka_unit_test(test_failures),
                                        cmocka_unit_test(test_create) };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
