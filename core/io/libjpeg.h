// The part of libjpeg's binary interface that decoding takes: version 62, as libjpeg-turbo has kept it since 2010.
//
// The library is not linked but loaded at run time, from another package (io/jpeg.h), so its header is missing when
// Thalweg is built. The library compares version and size of `Decompressor` with its own before it touches one: should
// the interface ever differ, it is refused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::libjpeg {

constexpr int kVersion = 62;

enum ColorSpace : int { kUnknown = 0, kGrayscale = 1, kRgb = 2, kYcc = 3, kCmyk = 4, kYcck = 5 };
enum DctMethod : int { kAccurate = 0, kFast = 1 };

struct Decompressor;

struct ErrorManager {
  void (*error_exit)(Decompressor*);  // must not return
  void (*emit_message)(Decompressor*, int level);
  void (*output_message)(Decompressor*);
  void (*format_message)(Decompressor*, char* buffer);
  void (*reset)(Decompressor*);
  int message_code;
  union {
    int numbers[8];
    char text[80];
  } message_parameters;
  int trace_level;
  long num_warnings;  // NOLINT: C's type, as the library has it
  const char* const* messages;
  int last_message;
  const char* const* addon_messages;
  int first_addon_message, last_addon_message;
};

struct Source {
  const uint8_t* next_byte;
  size_t bytes_left;
  void (*init)(Decompressor*);
  int (*fill)(Decompressor*);
  void (*skip)(Decompressor*, long bytes);  // NOLINT: as above
  int (*resync_to_restart)(Decompressor*, int wanted);
  void (*end)(Decompressor*);
};

struct Decompressor {
  ErrorManager* error;
  void* memory;
  void* progress;
  void* client_data;
  int is_decompressor, global_state;

  Source* source;
  unsigned image_width, image_height;
  int num_components;
  int jpeg_color_space, out_color_space;
  unsigned scale_num, scale_denom;
  double output_gamma;
  int buffered_image, raw_data_out, dct_method, do_fancy_upsampling, do_block_smoothing, quantize_colors, dither_mode,
      two_pass_quantize, desired_number_of_colors, enable_1pass_quant, enable_external_quant, enable_2pass_quant;
  unsigned output_width, output_height;
  int out_color_components, output_components, rec_outbuf_height, actual_number_of_colors;
  void* colormap;
  unsigned output_scanline;
  int input_scan_number;
  unsigned input_mcu_row;
  int output_scan_number;
  unsigned output_mcu_row;

  // The following fields are private to the library.
  void* coef_bits;
  void* tables[12];
  int data_precision;
  void* comp_info;
  int progressive_mode, arith_code;
  uint8_t arithmetic[48];
  unsigned restart_interval;
  int saw_jfif_marker;
  uint8_t jfif_version[2], density_unit;
  uint16_t x_density, y_density;
  int saw_adobe_marker;
  uint8_t adobe_transform;
  int ccir601_sampling;
  void* marker_list;
  int max_h_samp_factor, max_v_samp_factor, min_dct_scaled_size;
  unsigned total_mcu_rows;
  void* sample_range_limit;
  int comps_in_scan;
  void* cur_comp_info[4];
  unsigned mcus_per_row, mcu_rows_in_scan;
  int blocks_in_mcu, mcu_membership[10], spectral[4], unread_marker;
  void* modules[11];
};

}  // namespace thalweg::libjpeg
