"""Files that Proton wrote, opened: trees and traces of any version, their metrics and rates."""
