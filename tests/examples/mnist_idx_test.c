/* ctest: timeout=60 */
/* What is wrong with an idx file is found, and said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define IMAGES 3

static char folder[] = "/tmp/mnist_idx_test.XXXXXX";
static char path[4096], error[IDX_ERROR_BYTES];

static uint8_t image_header[] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 28, 0, 0, 0, 28};
static uint8_t label_header[] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
static uint8_t pixels[IMAGES * IMAGE_PIXELS + 1], labels[] = {7, 0, 9, 1};

static const char *file_name(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const uint8_t *header, size_t header_bytes,
                       const uint8_t *data, size_t data_bytes)
{
    gzFile file = gzopen(file_name(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, header, (unsigned)header_bytes), header_bytes);
    if (data_bytes > 0)
        assert_int_equal(gzwrite(file, data, (unsigned)data_bytes), data_bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static void write_images(const uint8_t *header, size_t bytes)
{
    write_file("train-images-idx3-ubyte.gz", header, sizeof image_header, pixels, bytes);
}

static void write_labels(const uint8_t *header, const uint8_t *data, size_t bytes)
{
    write_file("train-labels-idx1-ubyte.gz", header, sizeof label_header, data, bytes);
}

static void write_good(void)
{
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 7);
    write_images(image_header, sizeof pixels - 1);
    write_labels(label_header, labels, IMAGES);
}

static void expect_failure(const char *text)
{
    dataset set;
    error[0] = '\0';
    assert_false(dataset_load(folder, "train", 0, &set, error));
    if (strstr(error, text) == NULL)
        fail_msg("'%s' does not say '%s'", error, text);
}

static void good_files_are_read(void **state)
{
    (void)state;
    dataset set;
    write_good();
    assert_true(dataset_load(folder, "train", 0, &set, error));
    assert_int_equal(set.count, IMAGES);
    assert_memory_equal(set.images, pixels, IMAGES * IMAGE_PIXELS);
    assert_memory_equal(set.labels, labels, IMAGES);
    dataset_free(&set);
    assert_true(dataset_load(folder, "train", 2, &set, error));
    assert_int_equal(set.count, 2);
    dataset_free(&set);
}

static void wrong_magic_is_found(void **state)
{
    (void)state;
    write_good();
    for (size_t i = 0; i < 4; i++) {
        uint8_t header[sizeof image_header];
        memcpy(header, image_header, sizeof header);
        header[i] ^= 0x10;
        write_images(header, sizeof pixels - 1);
        expect_failure("magic");
    }
}

static void truncation_is_found(void **state)
{
    (void)state;
    write_good();
    write_images(image_header, sizeof pixels - 2);
    expect_failure("truncated");
    write_file("train-images-idx3-ubyte.gz", image_header, 9, NULL, 0);
    expect_failure("too short");
    write_file("train-images-idx3-ubyte.gz", image_header, 0, NULL, 0);
    expect_failure("too short");
}

static void a_cut_compressed_file_is_found(void **state)
{
    (void)state;
    write_good();
    assert_int_equal(truncate(file_name("train-images-idx3-ubyte.gz"), 100), 0);
    expect_failure("train-images-idx3-ubyte.gz");
}

static void too_much_data_is_found(void **state)
{
    (void)state;
    write_good();
    write_images(image_header, sizeof pixels);
    expect_failure("more data");
}

static void wrong_sizes_are_found(void **state)
{
    (void)state;
    uint8_t header[sizeof image_header];
    memcpy(header, image_header, sizeof header);
    write_good();
    header[11] = 56; /* 3 × 56 × 14: the same number of bytes */
    header[15] = 14;
    write_images(header, sizeof pixels - 1);
    expect_failure("56 × 14");
    header[8] = header[12] = 0xff; /* more than there is memory */
    write_images(header, sizeof pixels - 1);
    expect_failure("makes no sense");
    memset(header + 4, 0, 4);
    write_images(header, 0);
    expect_failure("makes no sense");
}

static void images_and_labels_must_belong_together(void **state)
{
    (void)state;
    uint8_t header[sizeof label_header];
    memcpy(header, label_header, sizeof header);
    write_good();
    header[7] = IMAGES + 1;
    write_labels(header, labels, IMAGES + 1);
    expect_failure("but 4 labels");
    const uint8_t wrong[] = {1, 10, 2};
    write_labels(label_header, wrong, IMAGES);
    expect_failure("no digit");
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    write_good();
    unlink(file_name("train-labels-idx1-ubyte.gz"));
    expect_failure("train-labels-idx1-ubyte.gz: No such file");
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file_name("train-images-idx3-ubyte.gz"));
    unlink(file_name("train-labels-idx1-ubyte.gz"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_read),
        cmocka_unit_test(wrong_magic_is_found),
        cmocka_unit_test(truncation_is_found),
        cmocka_unit_test(a_cut_compressed_file_is_found),
        cmocka_unit_test(too_much_data_is_found),
        cmocka_unit_test(wrong_sizes_are_found),
        cmocka_unit_test(images_and_labels_must_belong_together),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
